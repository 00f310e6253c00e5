// Package identity says which data directory a file belongs to, and which
// database in it. Every data directory has a random Lineage. The catalog, the
// series files, the shard manifests, the ledger and the segments of the log
// carry it, so that a file of another directory, or of another database, is
// found when it is opened.
//
// The types are plain values. Everything may be used concurrently.
package identity

import (
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
)

// Lineage names a data directory and the copies that were made of it. The zero
// Lineage is that of no directory.
type Lineage [16]byte

// NewLineage returns a random Lineage.
func NewLineage() Lineage {
	var l Lineage
	_, _ = rand.Read(l[:]) // never fails
	return l
}

// String returns the Lineage in hexadecimal.
func (l Lineage) String() string { return hex.EncodeToString(l[:]) }

// MarshalText returns the Lineage in hexadecimal.
func (l Lineage) MarshalText() ([]byte, error) { return []byte(l.String()), nil }

// UnmarshalText reads what MarshalText returns.
func (l *Lineage) UnmarshalText(text []byte) error {
	b, err := hex.DecodeString(string(text))
	if err != nil || len(b) != len(l) {
		return fmt.Errorf("lineage %q is not of 32 hexadecimal digits", text)
	}
	copy(l[:], b)
	return nil
}

// Database names a database of a data directory.
type Database struct {
	Lineage Lineage
	ID      uint32
}

// String returns the id of the database and its Lineage.
func (d Database) String() string { return fmt.Sprintf("database %d of %s", d.ID, d.Lineage) }

// ErrForeign is the class of errors about sound files in the wrong place.
var ErrForeign = errors.New("file belongs elsewhere")

// ForeignError says that a sound file belongs to another directory, database or
// shard than the one that it was found in.
type ForeignError struct {
	Path   string
	Reason string
}

// Error names the file and the reason.
func (e *ForeignError) Error() string { return e.Path + ": " + e.Reason }

// Is reports whether target is ErrForeign.
func (e *ForeignError) Is(target error) bool { return target == ErrForeign }

// Foreignf returns a *ForeignError.
func Foreignf(path, format string, args ...any) error {
	return &ForeignError{Path: path, Reason: fmt.Sprintf(format, args...)}
}
