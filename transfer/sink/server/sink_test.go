package server_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

// target is a server that has a database d with the policies of its list, and takes writes.
type target struct {
	mu       sync.Mutex
	policies []string
	lines    []string
}

// ServeHTTP implements http.Handler.
func (s *target) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.FormValue("q")
	switch {
	case r.URL.Path == "/write":
		b, _ := io.ReadAll(r.Body)
		s.lines = append(s.lines, strings.Split(strings.TrimSpace(string(b)), "\n")...)
		w.WriteHeader(http.StatusNoContent)
	case q == "SHOW DATABASES":
		_, _ = io.WriteString(w, `{"results":[{"series":[{"columns":["name"],"values":[["d"]]}]}]}`)
	case strings.HasPrefix(q, "SHOW RETENTION POLICIES"):
		var values []string
		for _, p := range s.policies {
			values = append(values, `["`+p+`",`+map[bool]string{true: "true", false: "false"}[p == "week"]+`]`)
		}
		_, _ = io.WriteString(w, `{"results":[{"series":[{"columns":["name","default"],"values":[`+strings.Join(values, ",")+`]}]}]}`)
	default:
		if _, name, ok := strings.Cut(q, `CREATE RETENTION POLICY "`); ok {
			name, _, _ = strings.Cut(name, `"`)
			s.policies = append(s.policies, name)
		}
		_, _ = io.WriteString(w, `{"results":[{}]}`)
	}
}

// one is a reader of one row of a series.
type one struct{ run *rows.Run }

func (o *one) Next(context.Context) (*rows.Run, error) {
	if o.run == nil {
		return nil, io.EOF
	}
	run := o.run
	o.run = nil
	return run, nil
}

func (o *one) Close() error { return nil }

// TestSink moves a policy that keeps a week: what is older is left out with a note. A move
// that goes on needs the policy of its finished parts; at a server that lacks it they are lost.
func TestSink(t *testing.T) {
	now := time.Date(2026, 1, 31, 0, 0, 0, 0, time.UTC)
	day := int64(24 * time.Hour)
	src := &mover.List{All: mover.Catalog{Databases: []*meta.Database{{Name: "d", RetentionPolicies: []*meta.RetentionPolicy{{Name: "week", Duration: 7 * 24 * time.Hour, ShardGroupDuration: 24 * time.Hour}}}}}}
	for i, days := range []int64{30, 2} {
		at := now.UnixNano() - days*day
		src.Items = append(src.Items, &mover.Part{
			Name: mover.Shard(uint64(i), "d", "week"), Database: "d", Policy: "week", ID: uint64(i), Times: model.TimeRange{Min: at, Max: at + day - 1},
			Open: func(context.Context, model.TimeRange, mover.Refuse) (rows.Reader, error) {
				return &one{&rows.Run{Key: "m,h=a", Fields: []column.Field{{Key: "v", Type: model.Integer}}, Rows: column.Rows{Times: []int64{at}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{days}}}}}}, nil
			},
		})
	}
	to := &target{}
	web := httptest.NewServer(to)
	defer web.Close()
	client := &exchange.Client{URL: web.URL}
	name := filepath.Join(t.TempDir(), "journal")
	var notes []string
	run := func() (*mover.Stats, error) {
		j, err := journal.Open(name, "test")
		if err != nil {
			t.Fatal(err)
		}
		defer j.Close()
		notes = nil
		return mover.Run(t.Context(), src, server.New(client, server.Options{}), mover.Options{
			Journal: j, Now: func() time.Time { return now }, Note: func(text string) { notes = append(notes, text) },
		})
	}
	s, err := run()
	if err != nil || s.Parts != 1 || s.Written != 1 || s.Expired != 1 || !slices.Equal(to.policies, []string{"week"}) || len(to.lines) != 1 || !strings.HasPrefix(to.lines[0], "m,h=a v=2i ") {
		t.Fatalf("%v, %+v, sent %q, policies %q", err, s, to.lines, to.policies)
	}
	if len(notes) != 1 || !strings.Contains(notes[0], "shard 0 of d.week is left out as far as it is older") {
		t.Errorf("%q", notes)
	}
	if s, err = run(); err != nil || s.Earlier != 1 || s.Parts != 0 || len(to.lines) != 1 || !slices.Contains(notes, "retention policy d.week is there already and stays as it is") {
		t.Errorf("once more: %v, %+v, %q", err, s, notes)
	}
	to.policies = nil
	if _, err = run(); !errors.Is(err, mover.ErrLost) {
		t.Errorf("an emptied server: %v", err)
	}
	if policy, err := server.DefaultPolicy(t.Context(), client, "d"); policy != "week" || err != nil {
		t.Errorf("%q, %v", policy, err)
	}
	to.policies = []string{"other"}
	if _, err := server.DefaultPolicy(t.Context(), client, "d"); err == nil || !strings.Contains(err.Error(), "give -rp") {
		t.Errorf("no default: %v", err)
	}
}
