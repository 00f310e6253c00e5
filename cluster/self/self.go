// Package self keeps who a node is: its name, its id, its cluster, and what it may do
// with its data directory, in two files of the directory.
package self

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// Dir is the directory of a node in its data directory.
const Dir = "cluster"

// The states of a node.
const (
	Waiting  = "waiting"        // it has nothing, and waits for its cluster to be founded
	Member   = "member"         // it has data and a log
	Transfer = "needs-transfer" // its data and its log must not be used
	Left     = "left"           // the cluster has removed it
)

// Identity says who a node is. Two files in the node's directory keep it:
//
//	tsdbd-node 2 SHA-256 of the rest, in hex
//	JSON
//
// docs/formats/node.md describes them.
type Identity struct {
	Edition uint64 `json:"edition"` // the higher one counts
	Cluster string `json:"cluster"` // id, in hex; "" while it waits
	Name    string `json:"name"`
	ID      string `json:"id"` // of the raft server: name/hex
	Address string `json:"address"`
	State   string `json:"state"`
	Reason  string `json:"reason,omitempty"` // why the state is not member
	Seed    bool   `json:"seed,omitempty"`   // it has founded the cluster
	// Seats are the members with which the cluster was founded, as its first entry has them.
	Seats []Seat `json:"seats,omitempty"`
	// Joined says that the cluster has had the node with this id.
	Joined bool `json:"joined,omitempty"`
	// Voted says that the node has had a vote under this id. If it has none now, an
	// administrator has taken it.
	Voted bool `json:"voted,omitempty"`
	// Former are ids that the node has given up. The cluster removes them before it
	// takes the new one in.
	Former []string `json:"former,omitempty"`
	// Aside is the directory to which state and log are to be moved, because points may
	// be only there.
	Aside string `json:"aside,omitempty"`
}

// Renew makes it that of a node that has no state and no promises.
func (i *Identity) Renew(reason string) {
	i.State, i.Reason, i.Joined, i.Voted = Transfer, reason, false, false
	i.Former = append(append([]string(nil), i.Former...), i.ID)
	i.ID = NewID(i.Name)
}

// Seat is a member with which a cluster is founded.
type Seat struct {
	ID      string `json:"id"`
	Address string `json:"address"`
	Voter   bool   `json:"voter,omitempty"`
}

// The version of an identity. The one before had no state waiting and no seats: it is read,
// so that nodes can be upgraded one after the other.
const (
	identityPrefix   = "tsdbd-node "
	identityVersion  = 2
	identityReadable = 1
)

var names = []string{"node.0", "node.1"}

// NewID returns an id for a node of that name which nobody has had.
func NewID(name string) string {
	var b [4]byte
	_, _ = rand.Read(b[:]) // never fails
	return name + "/" + hex.EncodeToString(b[:])
}

// NameOf returns the name of the node that has an id.
func NameOf(id raft.ServerID) string {
	s := string(id)
	if at := strings.LastIndexByte(s, '/'); at >= 0 {
		return s[:at]
	}
	return s
}

// NewCluster returns the id of a new cluster.
func NewCluster() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}

// CheckName returns an error if a node may not have a name.
func CheckName(name string) error {
	if len(name) > 64 || strings.ContainsFunc(name, func(r rune) bool {
		return !('a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || r == '-' || r == '_' || r == '.')
	}) {
		return fmt.Errorf("%q cannot be the name of a node: a name has up to 64 letters, digits, dots, hyphens and underscores", name)
	}
	return nil
}

func (i *Identity) encode() ([]byte, error) {
	body, err := json.MarshalIndent(i, "", " ")
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(body)
	return append(fmt.Appendf(nil, "%s%d %x\n", identityPrefix, identityVersion, sum), body...), nil
}

func decodeIdentity(name string, b []byte) (*Identity, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	rest, magic := bytes.CutPrefix(head, []byte(identityPrefix))
	number, want, _ := bytes.Cut(rest, []byte(" "))
	version, err := strconv.ParseUint(string(number), 10, 32)
	if !ok || !magic || err != nil {
		return nil, binio.Corruptf(name, 0, "not the identity of a node")
	}
	if version < identityReadable || version > identityVersion {
		return nil, binio.CheckVersions(name, "identity of a node", version, identityReadable, identityVersion)
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(want) {
		return nil, binio.Corruptf(name, int64(len(head)+1), "checksum mismatch")
	}
	i := new(Identity)
	if err := json.Unmarshal(body, i); err != nil {
		return nil, binio.Corruptf(name, int64(len(head)+1), "%v", err)
	}
	known := slices.Contains([]string{Waiting, Member, Transfer, Left}, i.State)
	if !known || i.Name == "" || i.ID == "" || (i.Cluster == "") != (i.State == Waiting) {
		return nil, binio.Corruptf(name, int64(len(head)+1), "it does not say who the node is")
	}
	return i, nil
}

// Read returns who the node in a data directory is, nil if there is none. One
// copy may be damaged.
func Read(fsys vfs.FS, dir string) (*Identity, error) {
	i, _, err := read(fsys, dir)
	return i, err
}

// Open is Read for the node itself: if one copy is damaged, missing or older, it writes both
// again, and keeps a damaged one with ".damaged" behind its name. If that fails, as on a full
// disk, it is a warning: the next Open tries again.
func Open(fsys vfs.FS, dir string, logger *slog.Logger) (*Identity, error) {
	i, found, err := read(fsys, dir)
	if i == nil || err != nil || found == nil {
		return i, err
	}
	if damage := new(binio.CorruptError); errors.As(found, &damage) {
		err = fsys.Rename(damage.Path, damage.Path+".damaged")
	}
	if err == nil { // else the damaged bytes would be gone
		err = Write(fsys, dir, i)
	}
	logger.Warn("a copy of the identity of the node is not whole, both are written again", "found", found, "err", err)
	return i, nil
}

// read is Read. It also returns what is wrong with the copy that does not count, unless
// another version has written it.
func read(fsys vfs.FS, dir string) (best *Identity, found, err error) {
	for _, n := range names {
		name := path.Join(dir, Dir, n)
		b, err := vfs.ReadFile(fsys, name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, nil, fmt.Errorf("read identity of the node: %w", err)
		}
		var i *Identity
		if err == nil {
			i, err = decodeIdentity(name, b)
		}
		switch {
		case err != nil:
			found = errors.Join(found, err)
		case best == nil:
			best = i
		case best.Edition != i.Edition:
			found = fmt.Errorf("one copy is of edition %d, the other of %d", best.Edition, i.Edition)
			if i.Edition > best.Edition {
				best = i
			}
		}
	}
	switch version := errors.Is(found, binio.ErrVersion); {
	case best != nil && version:
		return best, nil, nil
	case best != nil:
		return best, found, nil
	case version:
		return nil, nil, found
	case errors.Is(found, binio.ErrCorrupt):
		return nil, nil, fmt.Errorf("read identity of the node: %w; nothing says which node this directory belongs to: move the directory away, run tsdbd cluster remove NAME on another node, and start with an empty directory", found)
	}
	return nil, nil, nil // there is none
}

// Write makes an identity durable, as the next edition.
func Write(fsys vfs.FS, dir string, i *Identity) error {
	i.Edition++
	b, err := i.encode()
	if err != nil {
		return err
	}
	at := path.Join(dir, Dir)
	if err := fsys.MkdirAll(at); err != nil {
		return err
	}
	if err := vfs.WriteTwice(fsys, at, path.Join(at, names[0]), path.Join(at, names[1]), b); err != nil {
		return fmt.Errorf("write identity of the node: %w", err)
	}
	return fsys.SyncDir(dir)
}

// CheckSingle returns an error if a data directory belongs to a node of a cluster, so
// that no server may open it without the settings of the cluster.
func CheckSingle(fsys vfs.FS, dir string) error {
	i, err := Read(fsys, dir)
	if err != nil {
		return err
	}
	switch {
	case i == nil, i.State == Waiting:
		return nil
	case i.State == Left:
		return fmt.Errorf("%s is the directory of node %s, which %s: make it a server of its own with tsdbd cluster leave -data %s", dir, i.Name, i.Reason, dir)
	}
	return fmt.Errorf("%s is the directory of node %s of cluster %s: start with -cluster-node %s, -cluster-bind and -cluster-join as before, or make it a server of its own with tsdbd cluster leave -data %s", dir, i.Name, i.Cluster, i.Name, dir)
}

// Remove has a data directory belong to no node any more.
func Remove(fsys vfs.FS, dir string) error {
	at := path.Join(dir, Dir)
	for _, name := range names {
		if err := fsys.Remove(path.Join(at, name)); err != nil {
			return err
		}
	}
	return fsys.SyncDir(at)
}
