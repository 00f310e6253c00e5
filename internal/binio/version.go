package binio

import (
	"cmp"
	"errors"
	"fmt"
)

// ErrVersion is the class of sound data that another version of the program has written.
// It is not damaged, and nothing of it is changed.
var ErrVersion = errors.New("written by another version")

// Roads from data that this program does not read. docs/formats/README.md describes both.
const (
	toNewer   = "use that version or newer"
	fromOlder = "bring the points over with tsdbd export of the older program (-data or -backup) and tsdbd import of this one, or with tsdbd import -from the older server while it runs"
)

// VersionError names data of another version. It is an ErrVersion.
type VersionError struct {
	Path           string
	Format         string // the name of the format: "catalog"
	Version, Known uint64 // of the data, and the newest one that the program reads
	Oldest         uint64 // the first one that the program reads; 0: Known
	// What is what the program does not know of the data, in place of a version. The data
	// is newer then.
	What string
}

// CheckVersion returns a VersionError for data of a version other than the known one.
// The caller has checked that the data is sound.
func CheckVersion(path, format string, version, known uint64) error {
	return CheckVersions(path, format, version, known, known)
}

// CheckVersions is CheckVersion of a program that reads the versions from oldest to newest.
func CheckVersions(path, format string, version, oldest, newest uint64) error {
	if oldest <= version && version <= newest {
		return nil
	}
	return &VersionError{Path: path, Format: format, Version: version, Known: newest, Oldest: oldest}
}

// Unknown returns the VersionError of data whose version is known, but that says what only
// a newer program knows.
func Unknown(path, format, what string) error {
	return &VersionError{Path: path, Format: format, What: what}
}

// Age returns whether the data is "older" or "newer" than the program.
func (e *VersionError) Age() string {
	if e.What == "" && e.Version < e.Known {
		return "older"
	}
	return "newer"
}

// Error says which version has written the data, and what to do.
func (e *VersionError) Error() string {
	at := e.Path
	if at != "" {
		at += ": "
	}
	if e.What != "" {
		return fmt.Sprintf("%s%s: %s: written by a newer tsdbd; %s", at, e.Format, e.What, toNewer)
	}
	reads := fmt.Sprintf("version %d", e.Known)
	if oldest := cmp.Or(e.Oldest, e.Known); oldest < e.Known {
		reads = fmt.Sprintf("versions %d to %d", oldest, e.Known)
	}
	if e.Age() == "older" {
		return fmt.Sprintf("%s%s of version %d was written by an older tsdbd, this one reads %s: %s", at, e.Format, e.Version, reads, fromOlder)
	}
	return fmt.Sprintf("%s%s of version %d was written by a newer tsdbd; %s (this one reads %s)", at, e.Format, e.Version, toNewer, reads)
}

// Is makes errors.Is(err, ErrVersion) true.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
