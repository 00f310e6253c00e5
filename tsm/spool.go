package tsm

import (
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// spoolMemory is how much of a part of the index is held in memory while a
// file is written. The rest goes to a scratch file in the same directory.
const spoolMemory = 4 << 20

// spool collects bytes that are written to the file later.
type spool struct {
	fs    vfs.FS
	path  string // of the scratch file
	limit int
	buf   []byte
	file  vfs.File // nil while everything fits in buf
	size  int64    // bytes in file
	crc   uint32   // of the bytes in file
}

func (s *spool) len() uint64 { return uint64(s.size) + uint64(len(s.buf)) }

// spill writes buf to the scratch file if it is over the limit.
func (s *spool) spill() error {
	if len(s.buf) <= s.limit {
		return nil
	}
	if s.file == nil {
		f, err := s.fs.Create(s.path)
		if err != nil {
			return err
		}
		s.file = f
	}
	if _, err := s.file.Write(s.buf); err != nil {
		return err
	}
	s.crc = binio.ChecksumUpdate(s.crc, s.buf)
	s.size += int64(len(s.buf))
	s.buf = s.buf[:0]
	return nil
}

// copyTo hands everything to write, in order.
func (s *spool) copyTo(write func([]byte) error) error {
	if s.file != nil {
		part := make([]byte, min(s.size, 1<<20))
		crc := uint32(0)
		for off := int64(0); off < s.size; off += int64(len(part)) {
			part = part[:min(int64(len(part)), s.size-off)]
			if n, err := s.file.ReadAt(part, off); n < len(part) {
				return err
			}
			crc = binio.ChecksumUpdate(crc, part)
			if err := write(part); err != nil {
				return err
			}
		}
		if crc != s.crc {
			return fmt.Errorf("scratch file %s was read back different", s.path)
		}
	}
	return write(s.buf)
}

// close frees memory and removes the scratch file.
func (s *spool) close() error {
	s.buf = nil
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	s.file = nil
	if rerr := s.fs.Remove(s.path); err == nil {
		err = rerr
	}
	return err
}
