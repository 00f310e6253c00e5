package server

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/services/input/inputtest"
	"tsdbd/store"
)

// fakeNode is a node of a cluster whose leader is a handler.
type fakeNode struct {
	leads    bool
	leader   http.Handler
	requests int
	position uint64 // of the leader
	waited   uint64
	err      error
}

func (n *fakeNode) Leads() bool      { return n.leads }
func (n *fakeNode) Position() uint64 { return n.position }

func (n *fakeNode) Stamp(bool) func(http.Header) {
	return func(h http.Header) { h.Set("X-Tsdbd-Position", strconv.FormatUint(n.position, 10)) }
}

func (n *fakeNode) Forward(w http.ResponseWriter, r *http.Request) error {
	n.requests++
	if n.err != nil {
		return n.err
	}
	n.leader.ServeHTTP(w, r)
	return nil
}

func (n *fakeNode) Read(_ context.Context, position uint64, _ string) (bool, time.Duration, error) {
	n.waited = position
	return false, 0, n.err
}

// parse returns the rows of lines.
func parse(t *testing.T, table *point.Table, lines string) *point.Batch {
	t.Helper()
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{Unit: 1}); err != nil {
		t.Fatal(err)
	}
	return &b
}

// TestPassedOn: what inputs of a follower receive is stored by the leader as it was,
// and its errors are those of the leader's store.
func TestPassedOn(t *testing.T) {
	ctx := context.Background()
	var fail error
	leaders := &inputtest.Store{Fail: func() error { return fail }}
	leads := &fakeNode{leads: true, position: 17}
	handler := newPassedHandler(leaders, leads, 64<<20)
	follows := &fakeNode{leader: handler}
	data := &meta.Data{}
	own := &inputtest.Store{}
	p := &passer{Writer: own, node: follows, catalog: func() *meta.Data { return data }}

	if err := p.Ensure(ctx, "d", "rp"); err != nil || follows.waited != 17 {
		t.Fatalf("%v, waited for %d", err, follows.waited)
	}
	if _, err := leaders.Table("d"); err != nil {
		t.Error(err)
	}
	next, err := meta.Apply(meta.CreateDatabase{Name: "d"}, data)
	if err != nil {
		t.Fatal(err)
	}
	data = next
	follows.requests = 0
	if err := p.Ensure(ctx, "d", ""); err != nil || follows.requests != 0 {
		t.Errorf("%v, %d requests for a database that is there", err, follows.requests)
	}

	table := point.NewTable(1)
	lines := "m,a\\ b=c\\,d f=0.1,i=-7i,u=18446744073709551615u,s=\"say \\\"so\\\"\",t=true 1700000000000000001\nm f=2 -5\n"
	for _, w := range []*passer{p, {Writer: own, node: leads}} {
		if err := own.Ensure(ctx, "d", "rp"); err != nil {
			t.Fatal(err)
		}
		if err := w.Write(ctx, "d", "rp", parse(t, table, lines)); err != nil {
			t.Fatal(err)
		}
	}
	if got, want := leaders.Points(), own.Points(); got != want || strings.Count(want, "\n") != 1 {
		t.Errorf("the leader has %q, want %q", got, want)
	}

	// A batch that is large as text goes in parts.
	follows.requests = 0
	long := strings.Repeat("x", 60_000)
	var large strings.Builder
	for i := range 200 {
		fmt.Fprintf(&large, "m,long=%s%d f=1 %d\n", long, i, i)
	}
	if err := p.Write(ctx, "d", "rp", parse(t, table, large.String())); err != nil {
		t.Fatal(err)
	}
	if got, _ := leaders.Count(); got != 202 || follows.requests < 3 || follows.requests > 5 {
		t.Errorf("%d points in %d requests", got, follows.requests)
	}

	one := func() error { return p.Write(ctx, "d", "rp", parse(t, table, "m f=1 1\n")) }
	fail = &point.PartialWriteError{Reason: "type conflict", Dropped: 1, Database: "d", RetentionPolicy: "rp"}
	if err := one(); !reflect.DeepEqual(err, fail) {
		t.Errorf("partial write: %v", err)
	}
	if err := p.Write(ctx, "d", "rp", parse(t, table, large.String())); !strings.Contains(err.Error(), "dropped=3 ") {
		t.Errorf("partial write in parts: %v", err)
	}
	for _, c := range []struct {
		err, want error
		temporary bool
	}{
		{err: store.ErrOverloaded, temporary: true},
		{err: store.ErrNotLeader, temporary: true},
		{err: context.Canceled, temporary: true},
		{err: meta.ErrRetentionPolicyNotFound, want: meta.ErrRetentionPolicyNotFound},
		{err: errors.New("the disk is gone")},
	} {
		fail = c.err
		err := one()
		if point.Temporary(err) != c.temporary || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.err.Error()) {
			t.Errorf("%v: got %v", c.err, err)
		}
	}
	fail = nil
	leaders.Drop("d", "")
	if err := one(); !errors.Is(err, meta.ErrDatabaseNotFound) {
		t.Error(err)
	}

	// No leader, and a node that no longer is or does not serve yet.
	follows.err = errors.New("no leader now")
	if err := one(); !point.Temporary(err) || !strings.Contains(err.Error(), "no leader now") {
		t.Error(err)
	}
	if err := p.Ensure(ctx, "e", ""); !point.Temporary(err) {
		t.Error(err)
	}
	follows.err, leads.leads = nil, false
	if err := one(); !point.Temporary(err) || !strings.Contains(err.Error(), store.ErrNotLeader.Error()) {
		t.Error(err)
	}
	follows.leader = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "starting", http.StatusServiceUnavailable) })
	if err := one(); !point.Temporary(err) || !strings.Contains(err.Error(), "status 503: starting") {
		t.Error(err)
	}
	leads.leads = true
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("POST", passedPrefix+"other", nil))
	if w.Code == http.StatusNoContent {
		t.Error("an unknown path is answered")
	}
}
