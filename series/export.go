package series

import (
	"errors"

	"tsdbd/internal/vfs"
)

// Export is the series log of a database, held. Its first Size bytes do not change any
// more.
type Export struct {
	Database uint32
	File     vfs.File
	Size     int64
	Given    uint64 // see File.Given; the log may lack the end, and have more meanwhile
}

// Export opens the series log for reading, as it is now.
func (f *File) Export() (Export, error) {
	given := f.Given()
	log, err := f.fs.Open(f.logPath)
	if err != nil {
		return Export{}, err
	}
	size, err := log.Size()
	if err != nil {
		return Export{}, errors.Join(err, log.Close())
	}
	return Export{Database: f.opt.Identity.ID, File: log, Size: size, Given: given}, nil
}
