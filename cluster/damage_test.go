package cluster

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLogDamagedWhileRunning flips bits of the log of a leader that has to read it for
// a node that is behind. The leader copies a state, in the process, and is a voter
// again under another id. The others go on.
func TestLogDamagedWhileRunning(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100)
	g.equal("n1", "n2", "n3")
	g.servers["n3"].stop()
	var lines strings.Builder
	for i := range 20 {
		fmt.Fprintf(&lines, "lost%02d v=1 1\n", i)
	}
	g.send("n1", "/write?db=d", lines.String())
	s := g.servers["n1"]
	s.stop()
	s.start() // what it has in memory is gone
	g.await("n1 is open", func() bool { n, _ := s.now(); return n != nil && n.replica.Ready() })
	g.done("n1", "POST transfer-leader?name=n1")
	g.await("n1 leads", func() bool { n, _ := s.now(); return n != nil && n.Leads() })
	n, _ := s.now()
	id := n.identity().ID
	segments, err := filepath.Glob(filepath.Join(s.dir, "cluster", "log", "*.rlog"))
	if err != nil {
		t.Fatal(err)
	}
	flipped := 0
	for _, name := range segments {
		f, err := os.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for at := bytes.Index(b, []byte("lost")); at >= 0; at = bytes.Index(b, []byte("lost")) {
			b[at]++
			if _, err := f.WriteAt(b[at:at+1], int64(at)); err != nil {
				t.Fatal(err)
			}
			flipped++
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if flipped == 0 {
		t.Fatal("nothing to flip")
	}
	g.servers["n3"].start()
	g.await("n1 is in again under another id", func() bool {
		n, _ := s.now()
		return n != nil && n.identity().ID != id && n.identity().Joined
	})
	s.mu.Lock()
	reopens := s.reopens
	s.mu.Unlock()
	if reopens != 1 {
		t.Errorf("n1 was opened again %d times", reopens)
	}
	if aside, err := filepath.Glob(filepath.Join(s.dir, "cluster", "quarantine", "log-*", "*.rlog")); len(aside) == 0 {
		t.Errorf("the damaged log is not in quarantine: %v", err)
	}
	g.voters("n1", "n2", "n3")
	g.write("n1", "d", 100, 100)
	g.equal("n1", "n2", "n3")
	g.log.Lock()
	defer g.log.Unlock()
	if text := g.log.String(); !strings.Contains(text, "its log is damaged") || !strings.Contains(text, ".rlog") {
		t.Error("the log of the nodes does not name the damage")
	}
}
