package names

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

const (
	// Dir has everything but the objects.
	Dir      = "cold"
	listsDir = Dir + "/names"
	lockName = Dir + "/LOCK"
	leaseDir = Dir + "/lease"
	// States has what readers open, see package states.
	States = Dir + "/states"

	magic = "tsdbd-cold-names 1 "
	// maxListBytes bounds a list: a million names have 60 MB.
	maxListBytes = 256 << 20
)

// Objects is the directory of the objects, which backups use as well.
const Objects = "objects"

// Key returns the name of an object in a store.
func Key(object string) string { return path.Join(Objects, object) }

// Restored returns whose list has the names that a data directory needs which was restored
// from a backup, until the server on it publishes its own. lineage is that of the directory.
func Restored(lineage string) string { return "restored-" + lineage }

// list is an object with the names that a node needs.
type list struct {
	key    string
	node   string
	number uint64
}

// lists returns the newest list of each node, and all the others.
func lists(ctx context.Context, s object.Store) (newest map[string]list, old []string, err error) {
	infos, err := s.List(ctx, listsDir)
	if err != nil {
		return nil, nil, err
	}
	newest = map[string]list{}
	for _, i := range infos {
		base := path.Base(i.Name)
		at := strings.LastIndexByte(base, '.')
		if at < 0 {
			continue
		}
		number, err := strconv.ParseUint(base[at+1:], 16, 64)
		if err != nil {
			continue
		}
		l := list{i.Name, base[:at], number}
		if have, ok := newest[l.node]; ok {
			if have.number > l.number {
				have, l = l, have
			}
			old = append(old, have.key)
		}
		newest[l.node] = l
	}
	return newest, old, nil
}

// read returns the names of a list.
func read(ctx context.Context, s object.Store, key string) ([]string, error) {
	b, err := object.Read(ctx, s, key, maxListBytes)
	if err != nil {
		return nil, err
	}
	head, body, _ := bytes.Cut(b, []byte("\n"))
	var v uint64
	if n, _ := fmt.Sscanf(string(head), "tsdbd-cold-names %d ", &v); n == 1 {
		if err := binio.CheckVersions(key, "list of needed objects", v, 1, 1); err != nil {
			return nil, err
		}
	}
	want, ok := bytes.CutPrefix(head, []byte(magic))
	if sum := sha256.Sum256(body); !ok || hex.EncodeToString(sum[:]) != string(want) {
		return nil, fmt.Errorf("%s is not a list of names, or damaged", key)
	}
	return strings.Fields(string(body)), nil
}

// listAttempts is how often a list is looked for that its node has replaced meanwhile.
const listAttempts = 5

// All returns the names that the nodes need.
func All(ctx context.Context, s object.Store) (map[string]bool, error) {
	for attempt := 1; ; attempt++ {
		all := map[string]bool{}
		newest, _, err := lists(ctx, s)
		for _, l := range newest {
			if err != nil {
				break
			}
			var some []string
			some, err = read(ctx, s, l.key)
			for _, n := range some {
				all[n] = true
			}
		}
		if !errors.Is(err, object.ErrNotFound) || attempt == listAttempts {
			return all, err
		}
	}
}

// Nodes returns the nodes that have published a list.
func Nodes(ctx context.Context, s object.Store) (out []string, err error) {
	newest, _, err := lists(ctx, s)
	for node := range newest {
		out = append(out, node)
	}
	slices.Sort(out)
	return out, err
}

// Publish makes names those that a node needs. Its older lists go.
func Publish(ctx context.Context, s object.Store, node string, objects []string) error {
	newest, _, err := lists(ctx, s)
	if err != nil {
		return err
	}
	objects = slices.Compact(slices.Sorted(slices.Values(objects)))
	body := []byte(strings.Join(objects, "\n"))
	sum := sha256.Sum256(body)
	content := append([]byte(magic+hex.EncodeToString(sum[:])+"\n"), body...)
	number := newest[node].number
	for {
		number++
		key := fmt.Sprintf("%s/%s.%016x", listsDir, node, number)
		err := s.Put(ctx, key, object.Content{Bytes: content})
		if !errors.Is(err, object.ErrExists) {
			if err != nil {
				return err
			}
			break
		}
		// An attempt of ours may have arrived whose answer was lost.
		if have, err := object.Read(ctx, s, key, maxListBytes); err == nil && bytes.Equal(have, content) {
			break
		}
	}
	newest, old, err := lists(ctx, s)
	if err != nil {
		return err
	}
	var own []string
	for _, key := range old {
		if strings.HasPrefix(path.Base(key), node+".") && key != newest[node].key {
			own = append(own, key)
		}
	}
	return s.Delete(ctx, own...)
}

// Keep adds what a node needs to a list of another name, so that it stays when the node needs
// other objects.
func Keep(ctx context.Context, s object.Store, node, as string) error {
	newest, _, err := lists(ctx, s)
	if err != nil {
		return err
	}
	from, ok := newest[node]
	if !ok {
		return nil
	}
	all, err := read(ctx, s, from.key)
	if err != nil {
		return err
	}
	if to, ok := newest[as]; ok {
		kept, err := read(ctx, s, to.key)
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all, func(n string) bool { _, ok := slices.BinarySearch(kept, n); return !ok }) {
			return nil
		}
		all = append(all, kept...)
	}
	return Publish(ctx, s, as, all)
}

// Forget removes the lists of a node that is gone for good.
func Forget(ctx context.Context, s object.Store, node string) error {
	newest, old, err := lists(ctx, s)
	if err != nil {
		return err
	}
	keys := old
	if l, ok := newest[node]; ok {
		keys = append(keys, l.key)
	}
	keys = slices.DeleteFunc(keys, func(key string) bool {
		base := path.Base(key)
		return base[:strings.LastIndexByte(base, '.')] != node
	})
	return s.Delete(ctx, keys...)
}

// Lock keeps all others from removing objects, and from naming some that are there. dir is
// that of the store if it is a directory, else "". A lease of the same holder is taken over
// at once.
func Lock(ctx context.Context, s object.Store, fsys vfs.FS, dir, owner, holder string) (vfs.Lock, error) {
	if dir == "" {
		return object.Acquire(ctx, s, leaseDir, object.LeaseOptions{Owner: owner, Holder: holder})
	}
	if err := fsys.MkdirAll(path.Join(dir, Dir)); err != nil {
		return nil, err
	}
	return fsys.Lock(path.Join(dir, lockName))
}

// lockWait is how long Await waits: others hold a lock for seconds, or while they remove
// objects.
const lockWait = 2 * time.Minute

// Await takes a lock of a store. It waits while somebody else has it, for two minutes at most.
func Await(ctx context.Context, lock func(ctx context.Context) (vfs.Lock, error)) (vfs.Lock, error) {
	ctx, cancel := context.WithTimeout(ctx, lockWait)
	defer cancel()
	for {
		l, err := lock(ctx)
		if !InUse(err) {
			return l, err
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("lock the cold store: %w", err)
		case <-time.After(lockWait / 60):
		}
	}
}

// InUse reports whether an error of Lock says that somebody else has the lock.
func InUse(err error) bool {
	return errors.Is(err, object.ErrHeld) || errors.Is(err, vfs.ErrLocked)
}
