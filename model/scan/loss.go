package scan

import (
	"fmt"
	"time"

	"tsdbd/model"
)

// Loss is what a store has lost to damage and cannot rebuild. It lasts until an
// operator removes the damaged file from quarantine.
type Loss struct {
	Shard uint64 // 0: of the log, any shard
	Range model.TimeRange
	Path  string // of the file that was set aside
	// Gone says that there was no file to set aside. Path and ".reason" name the
	// text that says what is gone.
	Gone bool
	// Deletes says that deletes and moves were lost: points that were deleted may be in
	// answers, and points of moved series under their old names. Otherwise points are missing from them.
	Deletes bool
	// Older says that the files are an older copy: points that came since are missing, and
	// what Deletes says.
	Older bool
}

// String tells a client what is missing.
func (l *Loss) String() string {
	what := "points are missing"
	if l.Deletes {
		what = "deleted points and old names of series may be back"
	}
	where := "somewhere"
	if l.Shard != 0 {
		where = fmt.Sprintf("in shard %d, %s to %s", l.Shard, formatTime(l.Range.Min), formatTime(l.Range.Max))
	}
	if l.Older {
		return fmt.Sprintf("points are missing and deleted points and old names of series may be back %s: its files are an older copy, see %s.reason", where, l.Path)
	}
	if l.Gone {
		return fmt.Sprintf("%s %s: files are gone, see %s.reason", what, where, l.Path)
	}
	return fmt.Sprintf("%s %s: damaged file set aside as %s", what, where, l.Path)
}

func formatTime(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
