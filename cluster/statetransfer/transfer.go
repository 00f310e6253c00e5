package statetransfer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"time"

	"tsdbd/backup"
	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/shard/repair"
	"tsdbd/store/layout"
)

// Options say where a state goes.
type Options struct {
	FS       vfs.FS
	Dir      string       // the data directory
	Have     string       // a data directory whose files are taken where they are right; default Dir
	Cold     *backup.Cold // keeps the bodies of cold files; nil: they are copied
	Logger   *slog.Logger
	Progress func(backup.Progress) // may be nil
}

func (o *Options) cluster(name string) string { return path.Join(o.Dir, "cluster", name) }

func (o *Options) staging() string  { return o.cluster("transfer") }
func (o *Options) incoming() string { return o.cluster("incoming") }
func (o *Options) old() string      { return o.cluster("old") }

// Fetch brings the state of a node into the incoming directory. The backup handler of
// the node answers below the URL of peer.
func Fetch(ctx context.Context, peer *exchange.Client, opt Options) (*backup.Result, error) {
	begin := time.Now()
	if err := opt.FS.RemoveAll(opt.incoming()); err != nil {
		return nil, fmt.Errorf("remove an interrupted transfer: %w", err)
	}
	if err := opt.FS.MkdirAll(opt.staging()); err != nil {
		return nil, err
	}
	repository := backup.OpenRepository(opt.FS, opt.staging())
	taken, err := backup.Take(ctx, peer, repository, backup.TakeOptions{Whole: true, Have: cmp.Or(opt.Have, opt.Dir), Cold: opt.Cold, Progress: opt.Progress})
	if err != nil {
		return nil, fmt.Errorf("fetch state: %w", err)
	}
	if _, _, err := repository.Prune(ctx, 1); err != nil { // what earlier tries have fetched in vain
		return nil, fmt.Errorf("fetch state: %w", err)
	}
	if _, err := backup.Place(ctx, repository, opt.incoming(), backup.RestoreOptions{Backup: taken.Name, Link: true, Cold: opt.Cold}); err != nil {
		return nil, fmt.Errorf("place fetched state: %w", err)
	}
	taken.Took = time.Since(begin)
	return taken, nil
}

// isState reports whether a name in a data directory is part of a store.
func isState(name string) bool {
	return name == "meta" || name == "wal" || name == repair.QuarantineDir || strings.HasPrefix(name, layout.DatabasePrefix)
}

// Switch sets the state in the data directory aside and puts the one in the incoming
// directory there. It may be called again with the next state that Fetch has brought.
func Switch(opt Options) error {
	if err := opt.FS.MkdirAll(opt.old()); err != nil {
		return err
	}
	aside, err := opt.FS.List(opt.old())
	if err != nil {
		return err
	}
	if err := opt.move(opt.Dir, opt.old(), aside); err != nil {
		return fmt.Errorf("set old state aside: %w", err)
	}
	if err := opt.move(opt.incoming(), opt.Dir, nil); err != nil {
		return fmt.Errorf("put new state in place: %w", err)
	}
	return nil
}

// SetAside moves the state in the data directory to another directory. After a crash it
// may be called again.
func SetAside(opt Options, to string) error {
	if err := opt.move(opt.Dir, to, nil); err != nil {
		return fmt.Errorf("set state aside: %w", err)
	}
	return nil
}

// move moves the parts of a store, durably. It removes parts of which to already has those
// that were there first: they came with a Switch that was interrupted.
func (o *Options) move(from, to string, moved []string) error {
	names, err := o.FS.List(from)
	if err != nil {
		return err
	}
	for _, name := range names {
		if !isState(name) {
			continue
		}
		if slices.Contains(moved, name) {
			err = o.FS.RemoveAll(path.Join(from, name))
		} else {
			err = o.FS.Rename(path.Join(from, name), path.Join(to, name))
		}
		if err != nil {
			return err
		}
	}
	// The new names first: a crash shows rather both than none.
	return errors.Join(o.FS.SyncDir(to), o.FS.SyncDir(from))
}

// Clean removes the old state and what Fetch has left. It keeps what was in
// quarantine.
func Clean(opt Options) error {
	if err := opt.keepQuarantine(opt.old(), "", 2); err != nil {
		return fmt.Errorf("keep quarantine of old state: %w", err)
	}
	for _, dir := range []string{opt.old(), opt.incoming(), opt.staging()} {
		if err := opt.FS.RemoveAll(dir); err != nil {
			return fmt.Errorf("remove %s: %w", dir, err)
		}
	}
	return opt.FS.SyncDir(path.Join(opt.Dir, "cluster"))
}

// keepQuarantine moves the quarantines in a directory of the old state, and in those
// below it to a depth, to one of the node.
func (o *Options) keepQuarantine(dir, under string, depth int) error {
	names, err := o.FS.List(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, name := range names {
		switch {
		case name == repair.QuarantineDir:
			to := o.cluster(path.Join(repair.QuarantineDir, fmt.Sprintf("%s%s", under, time.Now().UTC().Format("20060102T150405.000000000Z"))))
			if err := o.FS.MkdirAll(path.Dir(to)); err != nil {
				return err
			}
			if err := o.FS.Rename(path.Join(dir, name), to); err != nil {
				return err
			}
			if err := errors.Join(o.FS.SyncDir(path.Dir(to)), o.FS.SyncDir(dir)); err != nil {
				return err
			}
			o.Logger.Warn("files in quarantine kept, they are not part of the new state", "path", to)
		case depth > 0 && (strings.HasPrefix(name, layout.DatabasePrefix) || strings.HasPrefix(name, layout.ShardPrefix)):
			if err := o.keepQuarantine(path.Join(dir, name), under+name+"-", depth-1); err != nil {
				return err
			}
		}
	}
	return nil
}
