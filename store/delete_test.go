package store

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/store/deletion"
	"tsdbd/tsi/match"
)

// TestDeleteSelectsWithoutGate: while the predicate of a delete is evaluated,
// writes go on, and what they bring before the delete is logged is deleted.
func TestDeleteSelectsWithoutGate(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1\nm,h=b v=1 1\nother v=1 1"))
	free := func() {
		t.Helper()
		if !s.gate.TryRLock() {
			t.Fatal("the predicate is evaluated under the gate")
		}
		s.gate.RUnlock()
	}
	rounds := 0
	req := scan.DeleteRequest{
		Database: "db",
		Range:    model.AllTime,
		Measurement: func(name string) bool {
			free()
			return name != "other"
		},
		Where: func(name string, _ []column.Field) (*model.TagExpr, error) {
			free()
			if rounds++; rounds == 1 {
				// Of a known measurement, of a new one, of one that stays, and in a
				// new shard. The third is of another value.
				s.must(s.write("db", "m,h=a2 v=1 1\nfresh,h=a v=1 1\nother,h=a v=1 1\nm,h=c v=1 1"))
				s.must(s.write("db", fmt.Sprintf("m,h=a3 v=1 %d\nm,h=d v=1 %d", 9*week, 9*week)))
			}
			return &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile("^a")}, nil
		},
	}
	s.must(s.Delete(t.Context(), req))
	var left []string
	for p := range s.read("db") {
		left = append(left, p[:strings.IndexByte(p, ' ')])
	}
	slices.Sort(left)
	if got := strings.Join(left, " "); got != "m,h=b m,h=c m,h=d other other,h=a" {
		t.Errorf("left: %s", got)
	}
}

// TestDeleteRounds: series that have come since the selection are looked at
// under the gate only within a budget of steps.
func TestDeleteRounds(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "m,h=a v=1 1"))
	db, err := s.database("db")
	s.must(err)
	where := &model.TagExpr{Op: model.TagMatch, Key: "h", Regex: regexp.MustCompile("^a.*b")}
	d := s.newDelete(db, &scan.DeleteRequest{
		Database: "db", Range: model.AllTime,
		Where: func(string, []column.Field) (*model.TagExpr, error) { return where, nil },
	})
	defer d.Release()
	resolve := func() {
		t.Helper()
		if _, err := d.resolve(t.Context(), match.NewWork(t.Context())); err != nil {
			t.Fatal(err)
		}
	}
	resolve()
	sequence := s.applying.sequence
	step := func(lines, what string, steps int) {
		t.Helper()
		s.must(s.write("db", lines))
		sequence = s.applying.sequence
		if err := d.exclusively(t.Context(), steps, func(ids []uint64) error { return s.deleteSelected(d, ids) }); !errors.Is(err, match.ErrBudget) {
			t.Fatalf("%s: %v", what, err)
		}
		if s.applying.sequence != sequence {
			t.Fatalf("%s: something was logged", what)
		}
		resolve()
	}
	step("m,h=ab v=1 1", "the expression is not compiled", 1<<30)
	var many strings.Builder
	for i := range 100 {
		fmt.Fprintf(&many, "m,h=ab%d v=1 1\n", i)
	}
	step(many.String(), "too many series", 99*deletion.KeySteps)
	step("m,h=ab"+strings.Repeat("x", 1000)+" v=1 1", "a long value", deletion.KeySteps+500)
	step("fresh,h=ab v=1 1", "a measurement that the request was not asked for", 1<<30)
	step(fmt.Sprintf("m,h=ab v=1 %d", 9*week), "a new shard", 1<<30)
	s.must(s.write("db", "m,h=ab_last v=1 1\nm,h=c v=1 1"))
	s.must(d.exclusively(t.Context(), 1<<12, func(ids []uint64) error { return s.deleteSelected(d, ids) }))
	left := s.read("db")
	for p := range left {
		if !strings.HasPrefix(p, "m,h=a ") && !strings.HasPrefix(p, "m,h=c ") {
			t.Errorf("%s is left", p)
		}
	}
	if len(left) != 2 {
		t.Errorf("%d points left", len(left))
	}
}

// TestDeleteStops: the end of its context ends a delete, which then changes
// nothing.
func TestDeleteStops(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	defer s.Close()
	s.create("db")
	s.must(s.write("db", "a v=1 1\nb v=1 1\nc v=1 1"))
	ctx, cancel := context.WithCancel(t.Context())
	asked := 0
	err := s.Delete(ctx, scan.DeleteRequest{Database: "db", Range: model.AllTime, Measurement: func(string) bool {
		asked++
		cancel()
		return true
	}})
	if !errors.Is(err, context.Canceled) || asked != 1 || len(s.read("db")) != 3 {
		t.Errorf("%v, asked for %d measurements, %d points left", err, asked, len(s.read("db")))
	}
}
