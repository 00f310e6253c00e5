package cluster

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

// filesHaveData reports whether the files of a data directory have databases or users.
func filesHaveData(fsys vfs.FS, dir string) (bool, error) {
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

// hasData reports whether the data directory of a server in no cluster has databases or
// users. If the server was killed, its log may have users that the catalog lacks.
func hasData(ctx context.Context, dir string, opt store.Options) (bool, error) {
	has, err := filesHaveData(opt.FS, dir)
	if has || err != nil {
		return has, err
	}
	if _, err := opt.FS.Stat(path.Join(dir, "wal")); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if _, err := flush(ctx, dir, opt); err != nil {
		return false, fmt.Errorf("put the log of the data directory into files: %w", err)
	}
	return filesHaveData(opt.FS, dir)
}

// flush opens the store in a directory that no server uses, puts everything into files, and
// closes it. It returns the sequence of the last entry.
func flush(ctx context.Context, dir string, opt store.Options) (uint64, error) {
	opt.RetentionInterval, opt.CloseFlush = -1, 24*time.Hour
	st, err := store.Open(dir, opt)
	if err != nil {
		return 0, err
	}
	set, err := st.Backup(ctx, nil) // which flushes everything
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
