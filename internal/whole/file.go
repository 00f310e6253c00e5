// Package whole writes files for people: one that is there is replaced by a whole one, or stays.
package whole

import (
	"errors"
	"os"
	"path"
	"path/filepath"

	"tsdbd/internal/vfs"
)

// Write has f write a file, which gets its name when f has succeeded and all is on the disk. A file
// of that name is replaced then, and keeps its mode; a new one is for its owner alone. What is no
// file, such as a device or a pipe, is written to as it is.
func Write(name string, f func(*os.File) error) error {
	mode := os.FileMode(0o600)
	if st, err := os.Stat(name); err == nil && !st.Mode().IsRegular() {
		file, err := os.OpenFile(name, os.O_WRONLY, 0)
		if err != nil {
			return err
		}
		return errors.Join(f(file), file.Close())
	} else if err == nil {
		mode = st.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	file, err := os.CreateTemp(filepath.Dir(name), ".tsdbd-*") // the name itself may be as long as names can be
	if refused, ok := errors.AsType[*os.PathError](err); ok {
		refused.Path = name
	}
	if err != nil {
		return err
	}
	defer os.Remove(file.Name()) // it has its name, or is of no use
	err = file.Chmod(mode)
	if err == nil {
		err = f(file)
	}
	if err == nil {
		err = file.Sync()
	}
	if err = errors.Join(err, file.Close()); err == nil {
		err = os.Rename(file.Name(), name)
	}
	if err == nil {
		err = vfs.OS.SyncDir(path.Dir(filepath.ToSlash(name)))
	}
	return err
}
