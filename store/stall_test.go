package store

import (
	"fmt"
	"maps"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/proc"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
)

// TestStatementsStallNoOther has a client that writes and reads another database while
// statements go through very many series. It compares the longest time without an answer
// with that of the statement, both as CPU time of the process, which other processes do not
// lengthen: no statement may keep the client waiting for most of its time. A client may also
// wait because a busy machine does not run it, so a statement fails only if it stalls each time.
func TestStatementsStallNoOther(t *testing.T) {
	stalls := stallingStatements(t)
	for range 4 {
		if len(stalls) == 0 {
			return
		}
		again := stallingStatements(t)
		maps.DeleteFunc(stalls, func(name, _ string) bool { return again[name] == "" })
	}
	for _, text := range stalls {
		t.Error(text)
	}
}

// stallingStatements returns a text for each statement that kept the client waiting.
func stallingStatements(t *testing.T) map[string]string {
	stalls := map[string]string{}
	const series = 40_000
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.CacheBytes = 2 << 30
	s := openTest(t, fs, opt)
	s.create("db")
	s.create("other")
	for lines, i := (&strings.Builder{}), 0; i < series; i++ {
		fmt.Fprintf(lines, "cpu,dc=eu-%d,host=host_%07d usage=%d 1\n", i%3, i, i)
		if i%10_000 == 9_999 {
			s.must(s.write("db", lines.String()))
			lines.Reset()
		}
	}
	for _, e := range s.entries() {
		s.flush(t.Context(), e)
	}
	most := func(string, []column.Field) (*model.TagExpr, error) {
		return &model.TagExpr{Op: model.TagNotEqual, Key: "host", Value: "host_0000001"}, nil
	}
	remove := func(where func(string, []column.Field) (*model.TagExpr, error)) func() {
		return func() {
			s.must(s.Delete(t.Context(), scan.DeleteRequest{Database: "db", Measurement: func(string) bool { return true }, Where: where, Range: model.AllTime}))
		}
	}
	moves := func(text string) func() {
		return func() {
			if got := s.statement(text)[0]; !strings.HasPrefix(got, fmt.Sprint(series)) {
				t.Errorf("%s: %s", text, got)
			}
		}
	}
	for _, c := range []struct {
		name string
		do   func()
	}{
		{"UPDATE SET", moves("UPDATE cpu SET rack = 'r1'")},
		{"UPDATE DROP TAG", moves("UPDATE cpu DROP TAG dc")},
		{"RENAME TAG", moves("ALTER MEASUREMENT cpu RENAME TAG rack TO row")},
		{"RENAME TO", moves("ALTER MEASUREMENT cpu RENAME TO processor")},
		{"RENAME FIELD", moves("ALTER MEASUREMENT processor RENAME FIELD usage TO used")},
		{"DELETE, DROP SERIES", remove(most)},
		{"DROP MEASUREMENT", remove(nil)},
	} {
		stop := make(chan struct{})
		var wg sync.WaitGroup
		longest, answers := time.Duration(0), 0
		last := proc.CPUTime()
		wg.Go(func() {
			for n := 0; ; n++ {
				s.must(s.write("other", fmt.Sprintf("m v=%d %d", n, n)))
				v, err := s.View("other", "", model.AllTime)
				s.must(err)
				v.Release()
				now := proc.CPUTime()
				longest, last, answers = max(longest, now-last), now, answers+1
				select {
				case <-stop:
					return
				default:
				}
			}
		})
		start := proc.CPUTime()
		c.do()
		took := proc.CPUTime() - start
		close(stop)
		wg.Wait()
		t.Logf("%s: %v of CPU, longest wait %v, %d answers", c.name, took, longest, answers)
		if longest > max(took/2, 20*time.Millisecond) {
			stalls[c.name] = fmt.Sprintf("%s: the client of another database waited for %v of %v of CPU", c.name, longest, took)
		}
	}
	s.must(s.Close())
	return stalls
}
