package cluster

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/series"
	"tsdbd/store/layout"
)

// TestIDsAfterDamage cuts the end of the list of series of a node. The series there were
// those of a shard that was dropped. An operator takes the loss for seen to, so that the
// node leads: it gives new series ids that the others have not given.
func TestIDsAfterDamage(t *testing.T) {
	g := settled(t)
	g.write("n1", "d", 0, 100) // the ids 1 to 50
	var jobs strings.Builder
	for i := range 10 {
		fmt.Fprintf(&jobs, "job,id=z%d v=1 %d\n", i, 5000*3600*second)
	}
	restart := func(name string) {
		s := g.servers[name]
		s.stop() // everything is in files
		s.start()
		g.voters("n1", "n2", "n3")
	}
	restart("n2") // the list has two blocks then
	g.send("n1", "/write?db=d", jobs.String())
	g.equal("n1", "n2", "n3")
	restart("n2")
	g.await("the shard is dropped", func() bool {
		_, st := g.leader().now()
		return st != nil && st.Apply(context.Background(), meta.DropShard{ID: st.Catalog().LastShardID}) == nil
	})
	g.equal("n1", "n2", "n3")

	s := g.servers["n2"]
	_, st := s.now()
	dir := filepath.Join(s.dir, layout.DatabaseDir(st.Catalog().Database("d").ID))
	s.stop()
	log := filepath.Join(dir, "series", series.LogName)
	info, err := os.Stat(log)
	if err == nil {
		err = os.Truncate(log, info.Size()-30)
	}
	if err != nil {
		t.Fatal(err)
	}
	s.start()
	g.voters("n1", "n2", "n3")
	s.stop()
	if err := os.RemoveAll(filepath.Join(dir, "quarantine")); err != nil {
		t.Fatal(err)
	}
	s.start()
	g.voters("n1", "n2", "n3")
	g.done("n1", "POST transfer-leader?name=n2")
	g.await("n2 leads", func() bool { n, _ := s.now(); return n != nil && n.Leads() })
	g.send("n2", "/write?db=d", "new,id=y v=1 1\n")
	g.equal("n1", "n2", "n3")
	for _, name := range []string{"n1", "n3"} {
		s := g.servers[name]
		s.mu.Lock()
		if s.fatal != nil || s.reopens > 0 {
			t.Errorf("%s could not apply an entry, and has opened again %d times: %v", name, s.reopens, s.fatal)
		}
		s.mu.Unlock()
	}
}
