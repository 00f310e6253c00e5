package ledger

import (
	"path"

	"tsdbd/internal/binio"
	"tsdbd/series"
	"tsdbd/store/layout"
)

// IDs say which ids of series a database has given. The series file says it too, but a
// series file that is gone, or has lost its end, does not know: an id that nothing else
// names would be given to another key, and the other nodes of a cluster could not apply
// that.
type IDs struct {
	Next     uint64 // all that were given are below
	Reported bool   // that the series file lacks some of them
}

func (l *Ledger) appendIDs(dst []byte, at int64, database uint32) []byte {
	ids, flags := l.IDs[database], byte(0)
	if ids.Reported {
		flags |= flagReported
	}
	return appendRecord(dst, at, kindIDs, flags, uint64(database), ids.Next, 0, 0)
}

// Lacks returns an ErrCorrupt that counts the ids which were given and are not in the
// series file of a database, all of which are below has. They are damage as long as nobody
// has reported them.
func (i IDs) Lacks(has uint64, dir string, database uint32) error {
	if i.Reported || has >= i.Next {
		return nil
	}
	name := path.Join(dir, layout.DatabaseDir(database), "series", series.LogName)
	return binio.Corruptf(name, -1, "series log without its end: it lacks %d series, with the ids %d to %d, which are not given again", i.Next-has, has, i.Next-1)
}

// SyncSeries makes the series of a database durable that were given their ids so far, and
// notes these. The next SetLog makes the note durable: until the log is trimmed, it has
// what is newer.
func (l *File) SyncSeries(database uint32, f *series.File) error {
	next := f.Given()
	if err := f.Sync(); err != nil {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if next > max(l.mu.IDs[database].Next, 1) {
		l.mu.IDs[database] = IDs{Next: next}
		l.mu.given[database] = true
	}
	return nil
}

// Skipped returns how many ids of series were found to be given and not in a series file.
func (l *File) Skipped() int64 { return l.skipped.Load() }

// Reserve keeps a series file that was just opened from giving ids again. If it lacks some
// that were given, Reserve returns an error that counts them, once.
func (l *File) Reserve(database uint32, f *series.File) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	ids, has := l.mu.IDs[database], f.Given()
	f.Reserve(ids.Next)
	if lacks := has < ids.Next; lacks != ids.Reported {
		if lacks {
			l.skipped.Add(int64(ids.Next - has))
		}
		l.mu.IDs[database] = IDs{Next: ids.Next, Reported: lacks}
		l.mu.given[database] = true
	}
	return ids.Lacks(has, path.Dir(l.dir), database)
}
