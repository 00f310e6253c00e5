package ledger

import (
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// LogOptions say what the ledger is to note about a log.
type LogOptions struct {
	// Relaxed says that writes are answered before the log is synced.
	Relaxed bool
	// Known is what the ledger and the store's files say of the log.
	Known wal.Known
	// Covered returns the sequence up to which the log is in files, 0 if that is not
	// known. Close calls it.
	Covered func() uint64
	// Failed reports whether the store has stopped to write: Close then notes nothing.
	Failed func() bool
}

// Log is the log of a single node. The ledger remembers how far it goes.
type Log struct {
	*wal.Log
	ledger   *File
	opt      LogOptions
	replayed bool
}

// OpenLog opens the log in dir. It sets Known and OnSegment of the log's options.
func (l *File) OpenLog(dir string, opt LogOptions, of wal.Options) (*Log, error) {
	of.Known = opt.Known
	of.OnSegment = func(number, sequence uint64) { l.noteSegment(number, sequence, opt.Relaxed) }
	log, err := wal.Open(dir, of)
	if err != nil {
		return nil, err
	}
	return &Log{Log: log, ledger: l, opt: opt}, nil
}

// noteSegment notes a segment of the log before that has an entry.
func (l *File) noteSegment(number, sequence uint64, relaxedNow bool) {
	err := l.SetLog(func(k *wal.Known, relaxed *bool) {
		k.Segment, k.Sequence, k.Open, k.Told = number, sequence, true, false
		*relaxed = relaxedNow
	})
	if err != nil {
		l.logger.Warn("segment of the log not noted, its loss would not be noticed", "err", err)
	}
}

// Replay notes in the ledger what was found.
func (l *Log) Replay(fn func(*entry.Entry) error) error {
	if err := l.Log.Replay(fn); err != nil {
		return err
	}
	l.replayed = true
	l.noteReplay()
	return nil
}

// noteReplay notes how far the log went at the start, or that what is missing at
// its end has been reported.
func (l *Log) noteReplay() {
	segment, sequence := l.End()
	err := l.ledger.SetLog(func(k *wal.Known, _ *bool) {
		if l.LostEnd() {
			k.Told = true
		} else if !k.Told {
			k.Segment, k.Sequence = max(k.Segment, segment), sequence
		}
		k.Open = false
	})
	if err != nil {
		l.ledger.logger.Warn("end of the log not noted, its loss would not be noticed", "err", err)
	}
}

// Close notes in the ledger where the log ends.
func (l *Log) Close() error {
	segment, sequence := l.End()
	err := l.Log.Close()
	if err == nil && l.replayed && !l.opt.Failed() {
		l.noteEnd(segment, sequence)
	}
	return err
}

// noteEnd notes where the log was closed, and what of it is in files.
func (l *Log) noteEnd(segment, sequence uint64) {
	covered := l.opt.Covered()
	err := l.ledger.SetLog(func(k *wal.Known, _ *bool) {
		if !k.Told {
			k.Segment, k.Sequence = segment, sequence
		}
		k.Open, k.Covered = false, max(k.Covered, covered)
	})
	if err != nil {
		l.ledger.logger.Warn("end of the log not noted, its loss would not be noticed", "err", err)
	}
}
