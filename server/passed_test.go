package server

import (
	"context"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/cluster/rows"
	"tsdbd/internal/body"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/services/input"
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
	behind   bool // reads go to the leader
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
	return n.behind, 0, n.err
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

// whole is a store of points and exemplars.
type whole struct {
	*inputtest.Store
	exemplars []model.Exemplar
	begin     func(ctx context.Context) // called by Write; nil: nothing
}

func (s *whole) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	if s.begin != nil {
		s.begin(ctx)
	}
	return s.Store.Write(ctx, db, rp, b)
}

func (*whole) RetentionPolicy(_, rp string) (string, error) { return rp, nil }

func (s *whole) WriteExemplars(_ context.Context, _ string, list []model.Exemplar) (kept, older int, err error) {
	if err := s.Fail(); err != nil {
		return 0, 0, err
	}
	s.exemplars = append(s.exemplars, list...)
	return len(list) - 1, 1, nil
}

// TestPassedOn: what inputs of a follower receive is stored by the leader as it was,
// and its errors are those of the leader's store.
func TestPassedOn(t *testing.T) {
	ctx := context.Background()
	var fail error
	leaders := &whole{Store: &inputtest.Store{Fail: func() error { return fail }}}
	leads := &fakeNode{leads: true, position: 17}
	var held body.Budget
	held.SetLimit(64 << 20)
	handler := &passedHandler{writer: leaders, node: leads, bodies: &held}
	follows := &fakeNode{leader: handler}
	data := &meta.Data{}
	own := &whole{Store: &inputtest.Store{}}
	p := &passer{localWriter: own, node: follows, catalog: func() *meta.Data { return data }, bodies: &held}
	defer func() {
		if n := held.Used(); n != 0 {
			t.Errorf("%d bytes stay charged", n)
		}
	}()

	if err := p.Ensure(ctx, "d", "rp"); err != nil || follows.waited != 17 {
		t.Fatalf("%v, waited for %d", err, follows.waited)
	}
	if _, err := leaders.Table("d"); err != nil {
		t.Error(err)
	}
	follows.behind = true
	if err := p.Ensure(ctx, "d", "rp"); !point.Temporary(err) {
		t.Errorf("a node that is too far behind to know the database: %v", err)
	}
	follows.behind = false
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
	for _, w := range []*passer{p, {localWriter: own, node: leads, bodies: &held}} {
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

	// Exemplars too, and what comes back says how many are kept.
	follows.requests = 0
	var list []model.Exemplar
	for i := range 200 {
		list = append(list, model.Exemplar{Series: "m,a=" + strconv.Itoa(i), Time: int64(i), Value: math.Inf(1), Labels: long})
	}
	stamp := http.Header{}
	p.stamp = stamp
	kept, older, err := p.WriteExemplars(ctx, "d", list)
	if n := follows.requests; err != nil || n < 3 || n > 5 || kept != len(list)-n || older != n || !slices.Equal(leaders.exemplars, list) {
		t.Errorf("%d of %d exemplars in %d requests, %d kept, %d older: %v", len(leaders.exemplars), len(list), n, kept, older, err)
	}
	if got := stamp.Get("X-Tsdbd-Position"); got != "17" || len(stamp) != 1 {
		t.Errorf("the stamp of the leader: %v", stamp)
	}
	p.stamp = nil

	one := func() error { return p.Write(ctx, "d", "rp", parse(t, table, "m f=1 1\n")) }
	fail = &point.PartialWriteError{Reason: "type conflict", Dropped: 1, Database: "d", RetentionPolicy: "rp"}
	if err := one(); !reflect.DeepEqual(err, fail) {
		t.Errorf("partial write: %v", err)
	}
	if err := p.Write(ctx, "d", "rp", parse(t, table, large.String())); !strings.Contains(err.Error(), "dropped=3 ") {
		t.Errorf("partial write in parts: %v", err)
	}
	fail = &point.PartialWriteError{Reason: strings.Repeat("\x01", 100_000), Dropped: 3}
	if _, dropped, ok := point.Partial(one()); !ok || dropped != 3 {
		t.Errorf("a partial write with a long reason: %v, %d dropped", ok, dropped)
	}
	for _, c := range []struct {
		err, want error
		temporary bool
	}{
		{err: store.ErrOverloaded, temporary: true},
		{err: store.ErrNotLeader, temporary: true},
		{err: context.Canceled, temporary: true},
		{err: rows.ErrDamaged, temporary: true}, // the leader has stored nothing
		{err: rows.ErrVersion, temporary: true},
		{err: meta.ErrRetentionPolicyNotFound, want: meta.ErrRetentionPolicyNotFound},
		{err: body.ErrTooLarge, want: body.ErrTooLarge},
		{err: errors.New("the disk is gone")},
	} {
		fail = c.err
		err := one()
		if point.Temporary(err) != c.temporary || c.want != nil && !errors.Is(err, c.want) || !strings.Contains(err.Error(), c.err.Error()) {
			t.Errorf("%v: got %v", c.err, err)
		}
		if _, _, got := p.WriteExemplars(ctx, "d", list[:1]); fmt.Sprint(got) != fmt.Sprint(err) {
			t.Errorf("%v: got %v for exemplars, %v for points", c.err, got, err)
		}
	}
	// The text is that of the leader.
	for _, want := range []error{meta.ErrRetentionPolicyNotFound, fmt.Errorf("%w: rp", meta.ErrRetentionPolicyNotFound)} {
		if fail = want; one().Error() != want.Error() {
			t.Errorf("got %v, want %v", one(), want)
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
	// A request that was forwarded to this node does not go on to another one.
	stays := *p
	stays.only, stays.localWriter = true, &whole{Store: &inputtest.Store{Fail: func() error { return store.ErrNotLeader }}}
	follows.requests = 0
	if err := stays.Write(ctx, "d", "rp", parse(t, table, "m f=1 1\n")); !errors.Is(err, store.ErrNotLeader) {
		t.Error(err)
	}
	if _, _, err := stays.WriteExemplars(ctx, "d", list[:1]); !errors.Is(err, store.ErrNotLeader) || follows.requests != 0 {
		t.Errorf("%v, %d requests", err, follows.requests)
	}
	// The leader knows how much time the request has, and the node that sends it too.
	if err := leaders.Ensure(ctx, "d", "rp"); err != nil {
		t.Fatal(err)
	}
	table = point.NewTable(2)
	begun := 0
	for _, limit := range []time.Duration{0, time.Hour} {
		p.limit, leads.leads, follows.leader = limit, true, handler
		leaders.begin = func(ctx context.Context) {
			begun++
			if until, ok := ctx.Deadline(); ok != (limit > 0) || time.Until(until) > limit {
				t.Errorf("until %v, limit %s", until, limit)
			}
		}
		if err := one(); err != nil {
			t.Error(err)
		}
	}
	if begun != 2 {
		t.Errorf("%d writes", begun)
	}
	follows.leader = http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() })
	p.limit = time.Millisecond
	if err := one(); err == nil {
		t.Error("a write that took too long has succeeded")
	}
	p.limit = 0
	// Others hold the memory.
	leads.leads, follows.requests, follows.leader = true, 0, handler
	others, err := held.Empty(0)
	if err != nil || others.Charge(64<<20-10) != nil {
		t.Fatal(err)
	}
	if err := one(); !point.Temporary(err) || follows.requests != 0 {
		t.Errorf("%v, %d requests", err, follows.requests)
	}
	others.Release()
	// No room is ever enough.
	held.SetLimit(10)
	if err := one(); !errors.Is(err, body.ErrTooLarge) || follows.requests != 0 {
		t.Errorf("%v, %d requests", err, follows.requests)
	}
	w := httptest.NewRecorder()
	handler.ServeHTTP(w, httptest.NewRequest("POST", passedPrefix+"other", nil))
	if w.Code == http.StatusNoContent {
		t.Error("an unknown path is answered")
	}
}

// TestInputOutlivesItsDatabase: a batch of an input of a follower, whose database was dropped and
// made again meanwhile, does not keep what comes later.
func TestInputOutlivesItsDatabase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		data, err := meta.Apply(meta.CreateDatabase{Name: "d"}, &meta.Data{})
		if err != nil {
			t.Fatal(err)
		}
		var held body.Budget
		held.SetLimit(64 << 20)
		leaders, own := &whole{Store: &inputtest.Store{}}, &whole{Store: &inputtest.Store{}}
		leader := &passedHandler{writer: leaders, node: &fakeNode{leads: true}, bodies: &held}
		p := &passer{localWriter: own, node: &fakeNode{leader: leader}, catalog: func() *meta.Data { return data }, bodies: &held}
		create := func() {
			for _, s := range []*whole{leaders, own} {
				s.Drop("d", "")
				if err := s.Ensure(t.Context(), "d", ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		point := func(time int64) []input.Point {
			return []input.Point{{Measurement: "m", Fields: []input.Field{{Key: "f", Value: 1}}, Time: time}}
		}
		create()
		b := input.NewBatcher(input.Options{Writer: p, Database: "d"})
		defer func() {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			b.Close(ctx)
		}()
		b.Offer(point(1))
		create()
		time.Sleep(time.Minute)
		b.Offer(point(2))
		time.Sleep(time.Minute)
		if got := leaders.Points(); got != "m f=1 2" || b.Counts().Failed.Load() != 1 {
			t.Errorf("the leader has %q, %d points failed", got, b.Counts().Failed.Load())
		}
	})
}
