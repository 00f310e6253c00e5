package inspect

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/overlay"
	"tsdbd/meta"
	"tsdbd/store"
)

// ErrInUse says that a server has the directory open.
var ErrInUse = errors.New("in use by a running server")

// ErrNoData says that a directory is none of a server's data.
var ErrNoData = errors.New("not a data directory of tsdbd: it has no catalog, no database, and no log")

// RestoreName is the file that a restore into a data directory has there until it is whole.
const RestoreName = "RESTORE"

// ErrUnfinished says that a restore into a directory was interrupted.
var ErrUnfinished = errors.New("a restore into it was interrupted: remove the directory, and restore again")

// CheckData returns an ErrNoData for a directory that is certainly not a data
// directory, and an ErrUnfinished for one that a restore has not finished.
func CheckData(fsys vfs.FS, dir string) error {
	if _, err := fsys.Stat(path.Join(dir, RestoreName)); err == nil {
		return fmt.Errorf("%s: %w", dir, ErrUnfinished)
	}
	for _, n := range meta.CopyNames() {
		if _, err := fsys.Stat(path.Join(dir, "meta", n)); err == nil || !errors.Is(err, fs.ErrNotExist) {
			return nil
		}
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	if slices.ContainsFunc(names, func(n string) bool { return strings.HasPrefix(n, "db-") }) {
		return nil
	}
	if slices.Contains(names, "LOCK") && slices.Contains(names, "wal") {
		return nil // a server has been started and has no database
	}
	return fmt.Errorf("%s: %w", dir, ErrNoData)
}

// Hold keeps servers off a data directory until the answer is closed. It
// returns an ErrInUse when one runs on it. Nothing is written.
func Hold(dir string) (io.Closer, error) {
	if st, err := os.Stat(dir); err != nil {
		return nil, err
	} else if !st.IsDir() {
		return nil, fmt.Errorf("%s is a file: %w", dir, ErrNoData)
	}
	l, err := vfs.Hold(filepath.Join(dir, "LOCK"))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return io.NopCloser(nil), nil // never opened by a server, or restored
	case errors.Is(err, vfs.ErrLocked):
		return nil, fmt.Errorf("%s: %w", dir, ErrInUse)
	case err != nil:
		return nil, err
	}
	return l, nil
}

// Store is a store over a directory that is only read.
type Store struct {
	*store.Store
	hold io.Closer
}

// Open holds the data directory dir and opens it for reading. What only its
// log has is replayed into memory. logger gets what the store says; nil
// discards.
func Open(dir string, logger *slog.Logger) (*Store, error) {
	return OpenWith(dir, store.Options{Logger: logger})
}

// OpenWith is Open of a directory whose store has another log, as that of a node of a
// cluster. It sets the options' FS.
func OpenWith(dir string, opt store.Options) (*Store, error) {
	hold, err := Hold(dir)
	if err != nil {
		return nil, err
	}
	if err := CheckData(vfs.OS, filepath.ToSlash(dir)); err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	opt.FS = overlay.New(vfs.OS)
	st, err := store.OpenForReading(filepath.ToSlash(filepath.Clean(dir)), opt)
	if err != nil {
		return nil, errors.Join(err, hold.Close())
	}
	return &Store{Store: st, hold: hold}, nil
}

// Close closes the store and lets the directory go.
func (s *Store) Close() error { return errors.Join(s.Store.Close(), s.hold.Close()) }
