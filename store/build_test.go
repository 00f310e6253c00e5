package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/shard"
)

// buildRows builds the shard of a time with a row a second, i = 0, 1, ... of each host.
func (s *testStore) buildRows(at int64, rows int, hosts ...string) error {
	b, err := s.buildAt(at)
	if err != nil {
		return err
	}
	for _, host := range hosts {
		refused, err := b.Builder.Series("m,host="+host, []column.Field{{Key: "i", Type: model.Integer}})
		if err != nil || len(refused) > 0 {
			return fmt.Errorf("%v, %w", refused, err)
		}
		for i := range rows {
			if err := b.Append(&column.Rows{Times: []int64{at + int64(i)*1e9}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{int64(i)}}}}); err != nil {
				return err
			}
		}
	}
	files, err := b.Finish()
	if err != nil {
		return err
	}
	return s.Adopt(b.shard, files)
}

// rowsOf returns what buildRows has made.
func rowsOf(at int64, rows int, hosts ...string) points {
	want := points{}
	for _, host := range hosts {
		for i := range rows {
			want[pointKey("m,host="+host, at+int64(i)*1e9, "i")] = fmt.Sprintf("%di", i)
		}
	}
	return want
}

func (s *testStore) wants(what string, want points) {
	s.t.Helper()
	got, err := state(s.Store)
	if err != nil {
		s.t.Fatalf("%s: %v", what, err)
	}
	if text := diff(got, want); text != "" {
		s.t.Fatalf("%s:\n%s", what, text)
	}
}

func (s *testStore) mustWrite(lines string) {
	s.t.Helper()
	if err := s.write("db", lines); err != nil {
		s.t.Fatal(err)
	}
}

// TestBuild builds a shard and goes on with it as with any other: overwrites, deletes,
// merges, restarts.
func TestBuild(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	if err := s.buildRows(origin, 3000, "a", "b"); err != nil {
		t.Fatal(err)
	}
	want := rowsOf(origin, 3000, "a", "b")
	s.wants("built", want)
	if _, err := s.buildAt(origin); !errors.Is(err, shard.ErrNotEmpty) {
		t.Errorf("a second time: %v", err)
	}
	s.mustWrite(fmt.Sprintf("m,host=a i=-1i %d\nm,host=c i=5i %d", origin+1e9, origin+1e9))
	want[pointKey("m,host=a", origin+1e9, "i")] = "-1i"
	want[pointKey("m,host=c", origin+1e9, "i")] = "5i"
	s.wants("written over", want)
	if err := s.write("db", fmt.Sprintf("m,host=a i=1.5 %d", origin)); err == nil || !strings.Contains(err.Error(), "field type conflict") {
		t.Errorf("another type: %v", err)
	}
	req := scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: origin, Max: origin + 100e9}}
	if err := s.Delete(t.Context(), req); err != nil {
		t.Fatal(err)
	}
	for key := range want {
		if _, at, _ := parseKey(key); at <= origin+100e9 {
			delete(want, key)
		}
	}
	s.wants("deleted", want)
	for round := range 3 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, fs, testOptions(fs))
		if id := s.Catalog().Database("db").RetentionPolicies[0].ShardGroups[0].Shards[0].ID; s.ledger.Known(id).Edition == 0 {
			t.Error("the ledger does not have the shard")
		}
		s.wants("opened again", want)
		if round == 0 {
			for _, e := range s.entries() {
				if _, err := e.Compact(context.Background(), true); err != nil {
					t.Fatal(err)
				}
			}
			s.wants("merged", want)
		}
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := orphans(fs, s.Catalog()); err != nil {
		t.Error(err)
	}
}

// TestBuildAfterDelete builds a shard whose earlier rows were deleted, while the log
// still has them and their delete: a replay must bring neither to the new rows.
func TestBuildAfterDelete(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	s.mustWrite(fmt.Sprintf("m,host=a i=7i %d", origin+5e9))
	if err := s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Range: model.AllTime}); err != nil {
		t.Fatal(err)
	}
	if err := s.buildRows(origin, 10, "a"); !errors.Is(err, shard.ErrNotEmpty) {
		t.Errorf("with a delete in memory: %v", err)
	}
	for _, e := range s.entries() {
		s.flush(context.Background(), e)
	}
	if err := s.buildRows(origin, 10, "a"); err != nil {
		t.Fatal(err)
	}
	want := rowsOf(origin, 10, "a")
	s.wants("built", want)
	left := fs.Crash(rand.New(rand.NewPCG(1, 2)), 1)
	again := openTest(t, left, testOptions(left))
	again.wants("after a crash", want)
	_ = again.Close()
	_ = s.Close()
}

// TestBuildTouches: rows that come without the log touch the windows of downsamples, also
// if the server is killed at once.
func TestBuildTouches(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	ctx := context.Background()
	hours := meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}
	sample := meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}}
	s.must(errors.Join(s.Apply(ctx, hours), s.Apply(ctx, sample)))
	id := s.Catalog().Database("db").Downsamples[0].ID
	s.must(s.saveTouched())
	if got := s.Touched().Waiting(id, model.MaxTime); len(got) != 0 {
		t.Fatalf("before: %v", got)
	}
	s.must(s.buildRows(origin, 10, "a"))
	fs = fs.Clone()
	_ = s.Close()
	s = openTest(t, fs, testOptions(fs))
	got := s.Touched().Waiting(id, model.MaxTime)
	if len(got) != 1 || got[0].From > origin || got[0].To <= origin {
		t.Errorf("after: %v", got)
	}
}

// TestBuildTouchesLater: windows that were being computed while a shard got its files are
// computed again.
func TestBuildTouchesLater(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	ctx := context.Background()
	hours := meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}
	sample := meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}}
	s.must(errors.Join(s.Apply(ctx, hours), s.Apply(ctx, sample)))
	b, err := s.buildAt(origin)
	if err != nil {
		t.Fatal(err)
	}
	b.Builder.Abort()
	id := s.Catalog().Database("db").Downsamples[0].ID
	for i, want := range []int{1, 0} { // the first was computed before the rows came, the second after it
		done := meta.CompleteWindows{ID: id, Sequence: s.Applied(), Windows: []meta.ComputedWindows{{From: model.MinTime, To: model.MaxTime}}}
		if i == 0 {
			s.must(s.buildRows(origin, 10, "a"))
		}
		s.must(s.Apply(ctx, done))
		if got := s.Touched().Waiting(id, model.MaxTime); len(got) != want {
			t.Errorf("%d: %v", i, got)
		}
	}
}

// TestBuildMeetsWrite writes to a shard while its files are built: they are refused, and
// the shard keeps what was written.
func TestBuildMeetsWrite(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	b, err := s.buildAt(origin)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Builder.Series("m,host=a", []column.Field{{Key: "i", Type: model.Integer}}); err != nil {
		t.Fatal(err)
	}
	if err := b.Append(&column.Rows{Times: []int64{origin}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{1}}}}); err != nil {
		t.Fatal(err)
	}
	s.mustWrite(fmt.Sprintf("m,host=b i=2i %d", origin))
	files, err := b.Finish()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Adopt(b.shard, files); !errors.Is(err, shard.ErrNotEmpty) {
		t.Errorf("adopted: %v", err)
	}
	if err := b.Abort(); err != nil {
		t.Fatal(err)
	}
	want := points{pointKey("m,host=b", origin, "i"): "2i"}
	s.wants("refused", want)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := orphans(fs, s.Catalog()); err != nil {
		t.Error(err)
	}
	if _, err := s.Build(b.shard); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
	s = openTest(t, fs, testOptions(fs))
	defer s.Close()
	if _, err := s.Build(99); !errors.Is(err, meta.ErrShardNotFound) {
		t.Errorf("no shard: %v", err)
	}
}

// TestAdoptFails has the disk fail at each step of Adopt, and aborts the builder as its
// owner does: the shard has nothing or all, and opens again.
func TestAdoptFails(t *testing.T) {
	whole := 0
	for n := 0; ; n++ {
		fs := vfstest.New()
		s := openTest(t, fs, testOptions(fs))
		s.create("db")
		b, err := s.buildAt(origin)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Builder.Series("m,host=a", []column.Field{{Key: "i", Type: model.Integer}}); err != nil {
			t.Fatal(err)
		}
		if err := b.Append(&column.Rows{Times: []int64{origin}, Cols: []column.Vector{{Type: model.Integer, Ints: []int64{0}}}}); err != nil {
			t.Fatal(err)
		}
		files, err := b.Finish()
		if err != nil {
			t.Fatal(err)
		}
		fs.FailFrom(n, errors.New("disk is full"))
		failed := s.Adopt(b.shard, files)
		fs.SetHook(nil)
		if failed != nil {
			if err := b.Abort(); err != nil {
				t.Errorf("%d: abort: %v", n, err)
			}
		}
		_ = s.Close() // after the failure it may have none
		s = openTest(t, fs, testOptions(fs))
		got, err := state(s.Store)
		if err != nil {
			t.Fatalf("%d: %v", n, err)
		}
		if len(got) > 0 || failed == nil {
			if text := diff(got, rowsOf(origin, 1, "a")); text != "" {
				t.Errorf("%d: %v\n%s", n, failed, text)
			}
			whole++
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if failed == nil {
			break
		}
	}
	if whole < 2 {
		t.Error("no failure came after the files were adopted")
	}
}
