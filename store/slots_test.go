package store

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/shard/plan"
)

// heldFS holds who makes a TSM file of shard 1.
type heldFS struct {
	vfs.FS
	held func()
	let  chan struct{}
}

func (f *heldFS) Create(name string) (vfs.File, error) {
	if strings.HasSuffix(name, ".tsm") && strings.Contains(name, "/shard-1/") {
		f.held()
		<-f.let
	}
	return f.FS.Create(name)
}

// TestMergesHaveSlots holds a merge of a cold shard: the merges of a shard that is written
// to go on.
func TestMergesHaveSlots(t *testing.T) {
	fs := vfstest.New()
	opt := testOptions(fs)
	s := openTest(t, fs, opt)
	s.create("db")
	for i := range plan.FanIn - 1 { // one more, and they could be merged already here
		s.must(s.write("db", fmt.Sprintf("m v=%d %d", i, i)))
		s.flushAll(t.Context())
	}
	s.must(s.Close())
	held, let := make(chan struct{}), make(chan struct{})
	opt.FS, opt.CompactAfter = &heldFS{fs, sync.OnceFunc(func() { close(held) }), let}, time.Nanosecond
	s = openTest(t, fs, opt)
	<-held
	for i := range 2 * plan.FanIn {
		s.must(s.write("db", fmt.Sprintf("m v=%d %d", i, 2*week+int64(i))))
		s.flush(t.Context(), s.shard(2))
	}
	s.must(s.write("db", fmt.Sprintf("m v=0 %d", 2*week))) // it is warm
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		if s.counters.Compactions.Load() > 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Error("no merge beside the one that is held")
			break
		}
	}
	close(let)
	s.must(s.Close())
}
