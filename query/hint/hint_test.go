package hint

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/RoaringBitmap/roaring/v2"
	"github.com/influxdata/influxql"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/syntax"
)

// large is a storage of many measurements, series and shards, which counts look-ups.
type large struct {
	*scantest.Store
	shards       int
	measurements []string // other than cpu
	values       int      // of the tag host of cpu
	looks        int
	asked        int // the most values that a call has asked for
	views        int // not released
	err          error
}

func (l *large) View(db, rp string, _ model.TimeRange) (scan.View, error) {
	l.views++
	return &largeView{l}, nil
}

type largeView struct{ *large }

func (v *largeView) Shards() (all []scan.Shard) {
	for i := range v.shards {
		all = append(all, &largeShard{large: v.large, at: int64(i)})
	}
	return all
}
func (v *largeView) SeriesKey(model.SeriesID) (string, error) { panic("no series key is needed") }
func (v *largeView) Losses() []scan.Loss                      { return nil }
func (v *largeView) Release()                                 { v.views-- }

// largeShard answers what a hint may ask. All else is nil and panics.
type largeShard struct {
	scan.Shard
	*large
	at int64
}

const shardSpan = int64(24 * time.Hour)

func (s *largeShard) TimeRange() model.TimeRange {
	return model.TimeRange{Min: s.at * shardSpan, Max: (s.at+1)*shardSpan - 1}
}

func (s *largeShard) Charged(func(int64) error) scan.Shard { return s }

func (s *largeShard) Measurements() []string {
	s.looks++
	return s.measurements
}

func (s *largeShard) Fields(name string) []column.Field {
	s.looks++
	if name == "cpu" {
		return []column.Field{{Key: "value", Type: model.Float}}
	}
	return nil
}

func (s *largeShard) TagKeys(string) ([]string, error) {
	s.looks++
	return []string{"host"}, s.err
}

func (s *largeShard) Select(_ context.Context, _ string, where *model.TagExpr) (*roaring.Bitmap, error) {
	s.looks++
	if where == nil {
		set := roaring.New()
		set.AddRange(0, uint64(s.values))
		return set, nil
	}
	return roaring.New(), nil
}

func (s *largeShard) FirstTagValues(_, _ string, _ *roaring.Bitmap, limit int) (list []string, err error) {
	s.looks++
	s.asked = max(s.asked, limit)
	for i := range min(limit, s.values) {
		list = append(list, fmt.Sprintf("host%07d", i))
	}
	return list, nil
}

func (s *largeShard) TimeBounds(*roaring.Bitmap) (model.TimeRange, bool) {
	s.looks++
	return s.TimeRange(), true
}

func parse(t testing.TB, text string) *influxql.SelectStatement {
	t.Helper()
	q, err := syntax.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	return q.Statements[0].(*influxql.SelectStatement)
}

func (l *large) ask(keep func(int64) error) *Asker {
	return &Asker{
		Storage: l, Now: time.Unix(0, 1<<60), Keep: keep,
	}
}

func newLarge() *large {
	l := &large{Store: scantest.New(), shards: 1, values: 1_000_000}
	l.Create("db", "autogen")
	for i := range 100_000 {
		l.measurements = append(l.measurements, fmt.Sprintf("m%05d", i))
	}
	return l
}

// TestBounded: a million series, 100,000 measurements, or a thousand shards do not make
// a hint look, list, or hold more.
func TestBounded(t *testing.T) {
	l := newLarge()
	many := func(op, side string) string { return side + strings.Repeat(op+side, 2*maxLooks) }
	for _, c := range []struct {
		shards int
		looks  int // at most
		q      string
		want   string
	}{
		{1, 55, `SELECT value FROM db.autogen.m99999x`, `measurement "m99999x" does not exist in db.autogen; did you mean "m99999"?`},
		{1, 110, `SELECT value FROM db.autogen.zzzzzzz`, `measurement "zzzzzzz" does not exist in db.autogen`},
		{1, 4, `SELECT value FROM db.autogen./nope/`, `no measurement in db.autogen matches /nope/`},
		{1, 20, `SELECT value FROM db.autogen.cpu WHERE host = 'hots0000001'`, `tag "host" of "cpu" has no value 'hots0000001'; did you mean 'host0000001'?`},
		{1, 20, `SELECT value FROM db.autogen.cpu WHERE host =~ /nope/`, ``}, // there are values that were not looked at
		{
			1, 20, `SELECT value FROM db.autogen.cpu WHERE time < 0`,
			`"cpu" has no rows in the time range of the query: the oldest is of 1970-01-01T00:00:00Z, the newest of 1970-01-01T23:59:59.999999999Z`,
		},
		{1000, maxLooks + 24, `SELECT value FROM db.autogen.m99999x`, `measurement "m99999x" does not exist in db.autogen; did you mean "m99999"?`},
		{200, 2 * maxLooks, `SELECT value FROM db.autogen.cpu WHERE host = 'q'`, `tag "host" of "cpu" has no value 'q'`},
		{200, 2 * maxLooks, `SELECT nope FROM db.autogen.cpu`, `"nope" is no field or tag of "cpu"`},
		{1000, maxLooks + 24, `SELECT nope FROM db.autogen.cpu`, ``}, // not all shards were looked at
		{
			200, 8 * maxLooks, `SELECT value FROM db.autogen.cpu WHERE ` + many(" AND ", "host =~ /host/"),
			``,
		},
		{1, 2 * maxLooks, `SELECT value FROM db.autogen.cpu WHERE ` + many(" OR ", "host = 'q'"), ``},
		{1, 100, `SELECT value FROM db.autogen.cpu WHERE ` + many(" OR ", "nope = 'q'"), `"nope" is no field or tag of "cpu"`},
	} {
		l.shards, l.looks, l.asked = c.shards, 0, 0
		held := int64(0)
		a := l.ask(func(n int64) error { held += n; return nil })
		got := strings.Join(a.Empty(t.Context(), parse(t, c.q)), "; ")
		if len(c.q) > 200 {
			c.q = c.q[:200]
		}
		if got != c.want {
			t.Errorf("%s:\n got %q\nwant %q", c.q, got, c.want)
		}
		t.Logf("%d look-ups, %d bytes: %s", l.looks, held, c.q)
		if l.looks > c.looks || a.looks > maxLooks+1 || l.asked > maxNames || held > 4<<20 {
			t.Errorf("%s: %d look-ups, want %d at most; counted %d; %d values; %d bytes", c.q, l.looks, c.looks, a.looks, l.asked, held)
		}
		if l.views != 0 {
			t.Fatalf("%s: %d views are not released", c.q, l.views)
		}
	}
}

// TestNoHint: the end of the context, refused memory, and damage give no reason.
func TestNoHint(t *testing.T) {
	l := newLarge()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	refuse := func(int64) error { return errors.New("no memory") }
	keep := func(int64) error { return nil }
	for name, c := range map[string]struct {
		ctx  context.Context
		keep func(int64) error
		err  error
		q    string
	}{
		"context": {ended, keep, nil, `SELECT value FROM db.autogen.cpu WHERE host = 'q'`},
		"memory":  {t.Context(), refuse, nil, `SELECT value FROM db.autogen./nope/`},
		"damage":  {t.Context(), keep, errors.New("damage"), `SELECT value FROM db.autogen.cpu WHERE host = 'q'`},
	} {
		l.err = c.err
		if got := l.ask(c.keep).Empty(c.ctx, parse(t, c.q)); len(got) != 0 || l.views != 0 {
			t.Errorf("%s: %q, %d views", name, got, l.views)
		}
	}
}

func TestNearest(t *testing.T) {
	many := make([]string, 3*maxNames)
	for i := range many {
		many[i] = fmt.Sprintf("m%06d", i)
	}
	for _, c := range []struct {
		name       string
		candidates []string
		want       string
	}{
		{"cpuu", []string{"cpu", "disk"}, "cpu"},
		{"ucp", []string{"cpu", "up"}, "up"},
		{"pcu", []string{"cpu"}, "cpu"},
		{"temprature", []string{"temper", "temperature"}, "temperature"},
		{"CPU", []string{"cpa", "cpu"}, "cpu"},
		{"größe", []string{"grösse", "große"}, "große"},
		{"usage", []string{"idle", "system"}, ""},
		{"", []string{"a", "bc"}, "a"},
		{"x", nil, ""},
		{strings.Repeat("x", maxText+1), []string{strings.Repeat("x", maxText)}, ""},
		{"m009999x", many, "m009999"},
		{"a000000", many, "m000000"},
	} {
		if got := (&Asker{ctx: t.Context()}).nearest(c.name, c.candidates); got != c.want {
			t.Errorf("%.20q: %q, want %q", c.name, got, c.want)
		}
	}
}

// TestClip: a text that is shown is short and ends between characters.
func TestClip(t *testing.T) {
	for _, s := range []string{"short", strings.Repeat("é", maxText), strings.Repeat("x", 1<<20)} {
		got := clip(s)
		if len(got) > maxText+len("…") || !strings.HasPrefix(s, strings.TrimSuffix(got, "…")) || strings.ToValidUTF8(got, "") != got {
			t.Errorf("%.20q: %q", s, got)
		}
	}
}
