package series

import (
	"errors"
	"path"

	"tsdbd/internal/vfs"
)

// Export is the series log of a database, held. Its first Size bytes do not change any
// more.
type Export struct {
	Database uint32
	File     vfs.File
	Size     int64
}

// OpenExport opens the series log in dir, as it is now.
func OpenExport(fsys vfs.FS, dir string, database uint32) (Export, error) {
	f, err := fsys.Open(path.Join(dir, LogName))
	if err != nil {
		return Export{}, err
	}
	size, err := f.Size()
	if err != nil {
		return Export{}, errors.Join(err, f.Close())
	}
	return Export{Database: database, File: f, Size: size}, nil
}
