package binio

import (
	"errors"
	"fmt"
)

// ErrVersion is the class of sound files that another build of the program has written.
// They are not damaged, and nothing of them is changed.
var ErrVersion = errors.New("written by another build")

// VersionError names a file of another version. It is an ErrVersion.
type VersionError struct {
	Path           string
	Format         string // the name of the format: "catalog"
	Version, Known uint64
}

// CheckVersion returns a VersionError for a file of a version other than the known one.
// The caller has checked that the file is sound.
func CheckVersion(path, format string, version, known uint64) error {
	if version == known {
		return nil
	}
	return &VersionError{path, format, version, known}
}

// Age returns whether the file is "older" or "newer" than the program.
func (e *VersionError) Age() string {
	if e.Version < e.Known {
		return "older"
	}
	return "newer"
}

// Error says which build has written the file, and what to do.
func (e *VersionError) Error() string {
	road := "use the newer program, or a backup from before"
	if e.Version < e.Known {
		road = "bring the points over with tsdbd export of the older program (-data or -backup) and tsdbd import of this one, or with tsdbd import -from the older server while it runs"
	}
	at := e.Path
	if at != "" {
		at += ": "
	}
	return fmt.Sprintf("%s%s of version %d was written by %s build of tsdbd, this one reads version %d: %s", at, e.Format, e.Version, map[bool]string{true: "an older", false: "a newer"}[e.Version < e.Known], e.Known, road)
}

// Is makes errors.Is(err, ErrVersion) true.
func (e *VersionError) Is(target error) bool { return target == ErrVersion }
