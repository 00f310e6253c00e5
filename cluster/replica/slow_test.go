package replica

import (
	"testing"
	"time"

	"github.com/hashicorp/raft"
)

// slowStorage stores entries when it may.
type slowStorage struct {
	Storage
	enter, leave chan struct{}
}

func (s slowStorage) StoreLogs([]*raft.Log) error {
	s.enter <- struct{}{}
	<-s.leave
	return nil
}

// TestSlowDisk: a disk that takes as long as the size of the entries explains does not
// hang.
func TestSlowDisk(t *testing.T) {
	s := slowStorage{enter: make(chan struct{}), leave: make(chan struct{})}
	e := newEntries(&Replica{opt: Options{Log: s}})
	data := make([]byte, 16<<20)
	f := func(logs int, data []byte, atLeast, atMost time.Duration) {
		t.Helper()
		stored := make(chan error)
		go func() {
			entries := make([]*raft.Log, logs)
			for i := range entries {
				entries[i] = &raft.Log{Index: uint64(i + 1), Data: data}
			}
			stored <- e.StoreLogs(entries)
		}()
		<-s.enter
		if got := e.slack(); got < atLeast || got > atMost {
			t.Errorf("%d entries of %d bytes may take %s", logs, len(data), got)
		}
		s.leave <- struct{}{}
		if err := <-stored; err != nil || e.slack() != 0 {
			t.Errorf("%v, %s behind it", err, e.slack())
		}
	}
	f(16, data[:1<<10], 0, time.Millisecond)
	f(1, data, 900*time.Millisecond, time.Second)
	f(8, data, 7*time.Second, 8*time.Second)
}
