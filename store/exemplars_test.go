package store

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// exemplarText returns the exemplars of a database as text.
func exemplarText(t *testing.T, s *Store, db string) string {
	t.Helper()
	list, err := s.Exemplars(t.Context(), db, 0, 1<<62, func(int64) error { return nil })
	if err != nil {
		return err.Error()
	}
	text := ""
	for _, e := range list {
		text += fmt.Sprintf("%s@%d=%v%s ", e.Series, e.Time, e.Value, e.Labels)
	}
	return text
}

func example(series string, ms int64) model.Exemplar {
	return model.Exemplar{Series: series, Time: ms, Value: 1, Labels: "x"}
}

// Exemplars of series with samples are kept, over a crash too, until their series or their
// database is deleted.
func TestExemplars(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.Exemplars, opt.CloseFlush = 100, -1
	now := time.UnixMilli(1_000_000)
	opt.Now = func() time.Time { return now }
	s := openTest(t, fs, opt)
	s.create("db")
	s.create("other")
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(s.write("db", "m,h=a v=1 1\nm,h=b v=1 1"))
	must(s.write("other", "m,h=a v=1 1"))
	put := func(db string, kept, older int, list ...model.Exemplar) {
		t.Helper()
		k, o, err := s.WriteExemplars(t.Context(), db, list)
		if err != nil || k != kept || o != older {
			t.Errorf("%v: %d kept, %d older, %v", list, k, o, err)
		}
	}
	late := now.Add(10 * time.Minute).UnixMilli()
	put("db", 2, 0, example("m,h=a", 10), example("m,h=b", 10), example("m,h=c", 10), example("m,h=b", late+1))
	put("db", 2, 1, example("m,h=a", 10), example("m,h=a", 9), example("m,h=a", 20))
	put("other", 1, 0, example("m,h=a", late))
	want := "m,h=a@10=1x m,h=b@10=1x m,h=a@20=1x "
	check := func(db, want string) {
		t.Helper()
		if got := exemplarText(t, s.Store, db); got != want {
			t.Errorf("%s has %s, want %s", db, got, want)
		}
	}
	check("db", want)
	must(s.Close())
	s = openTest(t, fs, opt)
	check("db", want)
	check("other", fmt.Sprintf("m,h=a@%d=1x ", late))
	must(s.Delete(t.Context(), scan.DeleteRequest{
		Database: "db", Measurement: func(name string) bool { return name == "m" }, Range: model.TimeRange{Min: model.MinTime, Max: 15e6},
	}))
	check("db", "m,h=a@20=1x ")
	must(s.Apply(context.Background(), meta.DropDatabase{Name: "db"}))
	s.create("db")
	check("db", "")
	if n, _ := s.exemplars.Held(); n != 1 {
		t.Errorf("%d exemplars are left, want that of the other database", n)
	}
	must(s.Close())
}

// The members of a log have the same exemplars.
func TestFollowExemplars(t *testing.T) {
	c := newCluster(t, 2, func(o *Options) { o.Exemplars = 100 })
	lead, other := c.members[0], c.members[1]
	c.elect(lead, 0)
	lead.store.create("db")
	lead.must(lead.store.write("db", "m,h=a v=1 1"))
	if kept, _, err := lead.store.WriteExemplars(t.Context(), "db", []model.Exemplar{example("m,h=a", 10)}); kept != 1 || err != nil {
		t.Fatal(kept, err)
	}
	other.must(other.follow(allEntries))
	if got := exemplarText(t, other.store.Store, "db"); got != "m,h=a@10=1x " {
		t.Error(got)
	}
	if _, _, err := other.store.WriteExemplars(t.Context(), "db", []model.Exemplar{example("m,h=a", 11)}); err == nil {
		t.Error("a follower took an exemplar")
	}
	for _, m := range c.members {
		m.must(m.store.Close())
	}
}
