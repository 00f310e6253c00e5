package inspect

import (
	"errors"
	"io"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/vfs"
)

// HashFile returns the xxHash64 of a whole file: the content hash of TSI files
// and of the pieces of a backup's series log.
func HashFile(fsys vfs.FS, name string) (uint64, error) {
	f, err := fsys.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	size, err := f.Size()
	if err != nil {
		return 0, err
	}
	h := xxhash.New()
	if n, err := io.Copy(h, io.NewSectionReader(f, 0, size)); err != nil {
		return 0, err
	} else if n != size {
		return 0, errors.Join(io.ErrUnexpectedEOF)
	}
	return h.Sum64(), nil
}
