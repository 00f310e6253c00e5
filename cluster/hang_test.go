package cluster

import (
	"testing"
	"time"

	"tsdbd/cluster/self"
	"tsdbd/internal/vfs/vfstest"
)

// TestIdentityWhileTheDiskHangs: who the node is can be read while a change of it waits for
// the disk, and is what it was.
func TestIdentityWhileTheDiskHangs(t *testing.T) {
	disk := &vfstest.Hanging{FS: vfstest.New()}
	n := &Node{fs: disk, opt: Options{Dir: "/data"}}
	if err := disk.MkdirAll("/data/" + self.Dir); err != nil {
		t.Fatal(err)
	}
	if err := n.setIdentity(func(i *self.Identity) { i.Name, i.State = "n1", self.Member }); err != nil {
		t.Fatal(err)
	}
	disk.Hang()
	changed := make(chan error, 1)
	go func() { changed <- n.setIdentity(func(i *self.Identity) { i.Voted = true }) }()
	for disk.Waiting() == 0 {
		time.Sleep(time.Millisecond)
	}
	read := make(chan bool, 1)
	go func() { read <- n.identity().Voted }()
	select {
	case voted := <-read:
		if voted {
			t.Error("it is said before it is durable")
		}
	case <-time.After(patience):
		t.Error("the identity cannot be read")
	}
	disk.Release()
	if err := <-changed; err != nil || !n.identity().Voted {
		t.Errorf("%v, %+v", err, n.identity())
	}
}
