package mover

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
)

const (
	// digestSize is how much of a SHA-256 tells lines apart.
	digestSize = 16
	// firstPlaces is the size of a new table.
	firstPlaces = 1 << 10
)

// seenLines is a set of digests of lines. It is a table on the disk, so that memory does
// not grow with the lines. The table goes with the process.
type seenLines struct {
	dir    string
	file   *os.File // nil: there is none yet
	places uint64   // of the table; a power of two
	n      uint64
}

// add adds a digest, and reports whether it is new.
func (s *seenLines) add(d [digestSize]byte) (bool, error) {
	is, err := s.insert(d)
	if err != nil {
		return false, fmt.Errorf("note a refused line: %w", err)
	}
	return is, nil
}

func (s *seenLines) insert(d [digestSize]byte) (bool, error) {
	if s.file == nil || 2*(s.n+1) > s.places {
		if err := s.grow(); err != nil {
			return false, err
		}
	}
	var there [digestSize]byte
	for at := binary.LittleEndian.Uint64(d[:]); ; at++ {
		offset := int64(at&(s.places-1)) * digestSize
		if _, err := s.file.ReadAt(there[:], offset); err != nil {
			return false, err
		}
		switch there {
		case d:
			return false, nil
		case [digestSize]byte{}:
			_, err := s.file.WriteAt(d[:], offset)
			if err == nil {
				s.n++
			}
			return err == nil, err
		}
	}
}

// grow makes a table, or one with four times the places.
func (s *seenLines) grow() error {
	grown := seenLines{dir: s.dir, places: max(firstPlaces, 4*s.places)}
	var err error
	if grown.file, err = os.CreateTemp(s.dir, ".tsdbd-refused-*"); err != nil {
		return err
	}
	// Where the system does not remove open files, close does.
	_ = os.Remove(grown.file.Name())
	if err = grown.file.Truncate(int64(grown.places) * digestSize); err == nil {
		err = grown.take(s)
	}
	if err != nil {
		return errors.Join(err, grown.close())
	}
	err = s.close() // of the smaller table
	*s = grown
	return err
}

// take takes the digests of another table.
func (s *seenLines) take(o *seenLines) error {
	if o.file == nil {
		return nil
	}
	block := make([]byte, firstPlaces*digestSize)
	for at := int64(0); at < int64(o.places)*digestSize; at += int64(len(block)) {
		if _, err := o.file.ReadAt(block, at); err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		for i := 0; i < len(block); i += digestSize {
			if d := [digestSize]byte(block[i:]); d != ([digestSize]byte{}) {
				if _, err := s.insert(d); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// close removes the table.
func (s *seenLines) close() error {
	if s.file == nil {
		return nil
	}
	err := s.file.Close()
	_ = os.Remove(s.file.Name()) // it is gone already where it can be
	s.file = nil
	return err
}
