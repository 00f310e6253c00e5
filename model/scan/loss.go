package scan

import (
	"fmt"
	"slices"
	"time"

	"tsdbd/model"
)

// Loss is what a store has lost to damage and cannot rebuild. It lasts until an
// operator removes the damaged file from quarantine.
type Loss struct {
	Shard uint64 // 0: of the log, any shard
	Range model.TimeRange
	Path  string // of the file that was set aside
	ID    string // that no other loss has, of any node and any time
	// Gone says that there was no file to set aside. Path and ".reason" name the
	// text that says what is gone.
	Gone bool
	// Deletes says that deletes and moves were lost: points that were deleted may be in
	// answers, and points of moved series under their old names. Otherwise points are missing from them.
	Deletes bool
	// Older says that the files are an older copy: points that came since are missing, and
	// what Deletes says.
	Older bool
	// LeftOut says that the file is in its place, and the view does without it.
	LeftOut bool
	// Accepted says that an administrator has accepted the loss for good.
	Accepted bool
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
	if l.LeftOut {
		return fmt.Sprintf("%s %s: damaged file %s is left out", what, where, l.Path)
	}
	if l.Gone {
		return fmt.Sprintf("%s %s: files are gone, see %s.reason", what, where, l.Path)
	}
	return fmt.Sprintf("%s %s: damaged file set aside as %s", what, where, l.Path)
}

// DamageError says that an answer would not be whole, and what can be done.
type DamageError struct{ Losses []Loss } // at least one

func (e *DamageError) Error() string {
	l := &e.Losses[0]
	text := l.String()
	if more := len(e.Losses) - 1; more > 0 {
		text += fmt.Sprintf(", and %d more losses", more)
	}
	from, to := time.Unix(0, l.Range.Min).UTC(), time.Unix(0, l.Range.Max).UTC()
	return fmt.Sprintf("%s. For an answer from what is left, add partial=true to the request; to accept the loss for good: ALTER SHARD %d ACCEPT LOSS FROM '%s' TO '%s'",
		text, l.Shard, from.Format(time.RFC3339Nano), to.Format(time.RFC3339Nano))
}

// Unreadable returns the error of a read that found a damaged part of a file of a shard.
func Unreadable(shard uint64, r model.TimeRange, err error) error {
	return fmt.Errorf("points of shard %d, %s to %s, cannot be read: %w", shard, formatTime(r.Min), formatTime(r.Max), err)
}

// Whole returns a view over r, or releases it and returns a *DamageError if damage has
// taken something from r that nobody has accepted.
func Whole(v View, r model.TimeRange) (View, error) {
	lost := slices.DeleteFunc(lostIn(v, r), func(l Loss) bool { return l.Accepted })
	if len(lost) > 0 {
		v.Release()
		return nil, &DamageError{lost}
	}
	return v, nil
}

// maxNotes is how many losses an answer tells one by one.
const maxNotes = 8

// Notes returns what an answer says of losses of a view in r: a short answer must not look
// like a whole one.
func Notes(v View, r model.TimeRange) (texts []string) {
	lost := lostIn(v, r)
	for i := range lost[:min(len(lost), maxNotes)] {
		text := lost[i].String()
		if lost[i].Accepted {
			text += "; the loss is accepted"
		}
		texts = append(texts, text)
	}
	if more := len(lost) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("%d more damaged files were set aside", more))
	}
	return texts
}

func lostIn(v View, r model.TimeRange) []Loss {
	return slices.DeleteFunc(slices.Clone(v.Losses()), func(l Loss) bool { return !l.Range.Overlaps(r) })
}

// PartialViews is a Storage whose views may lack what damage has taken.
type PartialViews func(db, rp string, r model.TimeRange) (View, error)

// View implements Storage.
func (f PartialViews) View(db, rp string, r model.TimeRange) (View, error) { return f(db, rp, r) }

// Partial implements Storage.
func (f PartialViews) Partial() Storage { return f }

func formatTime(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339) }
