package replica_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
)

// TestDiskHangs has the disk of the leader hang under writes, twice. The others elect one
// of them and take writes; the old leader answers whoever waits, knows that it does not
// lead, and still reads. When its disk answers again it follows, and no entry is lost or
// doubled.
func TestDiskHangs(t *testing.T) {
	disks := make([]*vfstest.Hanging, 3)
	c := newNodes(t, 3, func(i int) vfs.FS {
		disks[i] = &vfstest.Hanging{FS: vfstest.New()}
		return disks[i]
	}, nil)
	stop := make(chan struct{})
	w := c.write(stop)
	w.Go(func() { // writes that wait behind a drop that hangs, as the server tells of them
		for {
			select {
			case <-stop:
				return
			case <-time.After(electionTimeout):
				for _, m := range c.all {
					m.replica.Probe()
				}
			}
		}
	})
	end := sync.OnceFunc(func() {
		for _, d := range disks {
			d.Release()
		}
		close(stop)
		w.Wait()
	})
	t.Cleanup(end) // before the nodes are closed
	var own []string
	for round := range 2 {
		old := c.leader()
		before := old.replica.Applied()
		eventually(t, "progress", func() bool { return c.leader().replica.Applied() > before+20 })
		old = c.leader()
		disk := old.fs.(*vfstest.Hanging)
		disk.Hang()
		eventually(t, "a write that hangs", func() bool { return disk.Waiting() > 0 })
		eventually(t, "another leader", func() bool { return c.leader() != old })
		key := fmt.Sprintf("own,round=%d", round)
		eventually(t, "a write at the new leader", func() bool {
			return write(c.leader().store, "db", key+" v=1i 1") == nil
		})
		own = append(own, key+" 1 v")
		eventually(t, "an old leader that knows it", func() bool { return !old.replica.Leads() })
		if _, err := content(old.store, "db"); err != nil {
			t.Error(err)
		}
		if disk.Waiting() == 0 {
			t.Error("nothing hangs any more")
		}
		disk.Release()
	}
	end()
	got := c.settle()
	w.check(t, got)
	for _, key := range own {
		if got[key] != "1i" {
			t.Errorf("%s was acknowledged, there is %q", key, got[key])
		}
	}
}

// TestProbe has the disk of a leader hang that stores nothing: the others follow it. Once a
// write waits there, which the server tells, they do not.
func TestProbe(t *testing.T) {
	disks := make([]*vfstest.Hanging, 3)
	c := newNodes(t, 3, func(i int) vfs.FS {
		disks[i] = &vfstest.Hanging{FS: vfstest.New()}
		return disks[i]
	}, nil)
	t.Cleanup(func() { // before the nodes are closed
		for _, d := range disks {
			d.Release()
		}
	})
	old := c.leader()
	old.fs.(*vfstest.Hanging).Hang()
	eventually(t, "another leader", func() bool {
		old.replica.Probe()
		return c.leader() != old
	})
}
