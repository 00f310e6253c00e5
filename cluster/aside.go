package cluster

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"tsdbd/cluster/statetransfer"
	"tsdbd/internal/vfs"
)

// asidePrefix begins the name of a directory, in the data directory, with what a node had
// when it gave up its id because the cluster went on with something else. It is a whole
// data directory, of a member: tsdbd cluster leave makes it one of a server of its own.
// Nothing removes it but an administrator.
const asidePrefix = "set-aside-"

const asideReason = "reason" // the file that says why

// newAside makes a directory for what the node has, with its present identity. What the
// node has is moved there by setAside when nobody has it open.
func (n *Node) newAside(reason string) (name string, err error) {
	for k := 1; ; k++ {
		name = fmt.Sprintf("%s%d", asidePrefix, k)
		if _, err := n.fs.Stat(path.Join(n.opt.Dir, name)); errors.Is(err, fs.ErrNotExist) {
			break
		} else if err != nil {
			return "", err
		}
	}
	dir := path.Join(n.opt.Dir, name)
	if err := n.fs.MkdirAll(dir); err != nil {
		return "", err
	}
	i := *n.identity()
	if err := writeIdentity(n.fs, dir, &i); err != nil {
		return "", err
	}
	if err := vfs.WriteFileAtomic(n.fs, dir, path.Join(dir, asideReason), []byte(reason+"\n")); err != nil {
		return "", err
	}
	return name, n.fs.SyncDir(n.opt.Dir)
}

// setAside moves state and log of the node to the directory that newAside has made. After
// a crash it goes on.
func (n *Node) setAside(name string) error {
	n.aside = path.Join(n.opt.Dir, name)
	if err := statetransfer.SetAside(n.transferOptions(), n.aside); err != nil {
		return err
	}
	to := path.Join(n.aside, Dir)
	err := n.fs.Rename(n.logDir(), path.Join(to, "log"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := errors.Join(n.fs.SyncDir(to), n.fs.SyncDir(path.Join(n.opt.Dir, Dir))); err != nil {
		return err
	}
	if err := n.setIdentity(func(i *identity) { i.Aside = "" }); err != nil {
		return err
	}
	n.logger.Warn("what the node had is set aside and kept", "path", n.aside, "reason", n.identity().Reason)
	return nil
}

// lookAside notes, for the status, what has been set aside and is still there.
func (n *Node) lookAside() {
	names, err := n.fs.List(n.opt.Dir)
	if err != nil {
		return
	}
	var told []string
	for _, name := range names {
		if !strings.HasPrefix(name, asidePrefix) {
			continue
		}
		reason, _ := vfs.ReadFile(n.fs, path.Join(n.opt.Dir, name, asideReason))
		told = append(told, fmt.Sprintf("%s has set aside in %s what it had when it was found that %s; acknowledged points may be only there, until you have looked and remove it",
			n.opt.Name, path.Join(n.opt.Dir, name), strings.TrimSpace(string(reason))))
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.aside = strings.Join(told, "; ")
}
