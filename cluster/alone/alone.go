// Package alone looks at the data directory of a server that was in no cluster.
package alone

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/store"
	"tsdbd/store/layout"
	"tsdbd/store/ledger"
)

// hasData reports whether a data directory has databases or users.
func hasData(fsys vfs.FS, dir string) (bool, error) {
	names, err := fsys.List(dir)
	if err != nil {
		return false, fmt.Errorf("open node: %w", err)
	}
	for _, name := range names {
		if strings.HasPrefix(name, layout.DatabasePrefix) {
			return true, nil
		}
	}
	for _, name := range meta.CopyNames() {
		data, err := meta.ReadFile(fsys, path.Join(dir, "meta", name))
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil && !binio.Damaged(err):
			return false, fmt.Errorf("open node: %w", err)
		case err != nil || data.Index > 0:
			return true, nil
		}
	}
	return false, nil
}

// HasData reports whether a data directory has databases or users. Its server may have been
// killed before the catalog was
// saved: users may be in its log alone.
func HasData(ctx context.Context, dir string, opt store.Options) (bool, error) {
	has, err := hasData(opt.FS, dir)
	if has || err != nil {
		return has, err
	}
	if _, err := opt.FS.Stat(path.Join(dir, "wal")); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := Flush(ctx, dir, opt); err != nil {
		return false, fmt.Errorf("put the log of the data directory into files: %w", err)
	}
	return hasData(opt.FS, dir)
}

// Flush opens the store in a directory, puts everything into files, and closes it. It
// returns the sequence of the last entry.
func Flush(ctx context.Context, dir string, opt store.Options) (uint64, error) {
	opt.RetentionInterval, opt.CloseFlush = -1, 24*time.Hour
	opt.OpenLog, opt.Follower = nil, false
	st, err := store.Open(dir, opt)
	if err != nil {
		return 0, err
	}
	set, err := st.Backup(ctx, nil)
	if err != nil {
		return 0, errors.Join(err, st.Close())
	}
	sequence, applied := set.Sequence, set.Catalog.Applied
	set.Release()
	// What the log has lost was given out, too.
	if known, _, err := ledger.Read(opt.FS, dir); err == nil {
		sequence = max(sequence, known.Log.Sequence)
	}
	if err := st.Close(); err != nil {
		return 0, err
	}
	for _, name := range meta.CopyNames() {
		saved, err := meta.ReadFile(opt.FS, path.Join(dir, "meta", name))
		if err == nil && saved.Applied < applied {
			err = fmt.Errorf("it has the changes up to %d of %d", saved.Applied, applied)
		}
		if err != nil {
			return 0, fmt.Errorf("save catalog: %w", err)
		}
	}
	return max(sequence, applied), nil
}
