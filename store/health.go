package store

import (
	"fmt"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/shard/repair"
)

// Health reports whether the store takes writes, and why not.
func (s *Store) Health() (ok bool, message string) {
	if p := s.failure.Load(); p != nil {
		return false, (*p).Error()
	}
	if s.diskIsFull() {
		return false, "disk full: writes are refused until there is space, queries and deletes are answered"
	}
	if err := s.troubled(); err != nil {
		return false, fmt.Sprintf("the latest write or change was refused: %v; queries are answered", err)
	}
	const ready = "ready for queries and writes"
	if n, err := s.failingFlushes(); n > 0 {
		return true, fmt.Sprintf("%s; %d shards cannot be flushed, which is tried again: %v", ready, n, err)
	}
	if err := s.catalog.Err(); err != nil {
		return true, fmt.Sprintf("%s; the catalog cannot be saved, which is tried again: %v", ready, err)
	}
	if r := s.refusedErrors(); len(r) > 0 {
		return true, fmt.Sprintf("%s; %d databases do not open, the first: %v", ready, len(r), r[0])
	}
	if q := s.quarantined(); len(q) > 0 {
		return true, fmt.Sprintf("%s; %d files or directories are in quarantine, the first: %s: %s", ready, len(q), q[0].Path, q[0].Reason)
	}
	if d := s.damaged(); len(d) > 0 {
		return true, fmt.Sprintf("%s; %d files have damage that queries may meet, the first: %v", ready, len(d), d[0])
	}
	harmless := ""
	for _, d := range s.log.Damage() {
		text := fmt.Sprintf("%s; the log was found damaged at start: %s at offset %d: %s", ready, d.Segment, d.Offset, d.Reason)
		switch {
		case d.Torn:
		case d.Harmless:
			harmless = text + "; nothing is lost"
		default:
			return true, text
		}
	}
	if harmless != "" {
		return true, harmless
	}
	return true, ready
}

// failingFlushes returns how many shards could not be flushed at the last try,
// and why one of them could not. Their rows are in memory and in the log.
func (s *Store) failingFlushes() (n int, err error) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.shards {
		if e.failures > 0 {
			n, err = n+1, e.failed
		}
	}
	return n, err
}

// quarantined returns the files and directories in quarantine, sorted.
func (s *Store) quarantined() (out []repair.Quarantined) {
	for _, q := range s.quarantines() {
		out = append(out, q.List()...)
	}
	slices.SortFunc(out, func(a, b repair.Quarantined) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// damaged returns the damage of the shards' files that stay in service, as far
// as reads have met it, sorted.
func (s *Store) damaged() (out []*binio.CorruptError) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, e := range s.mu.shards {
		out = append(out, e.Damaged()...)
	}
	slices.SortFunc(out, func(a, b *binio.CorruptError) int { return strings.Compare(a.Path, b.Path) })
	return out
}

// Damage is what is known to be damaged.
type Damage struct {
	Quarantined int // files that were set aside
	Damaged     int // files in service that have damage
	LogSpans    int // of the log, found at the start, torn tails left out
	First       string
}

// Damage returns what is known to be damaged.
func (s *Store) Damage() Damage {
	var all []string
	q, d := s.quarantined(), s.damaged()
	for _, x := range q {
		all = append(all, x.Path)
	}
	for _, x := range d {
		all = append(all, x.Path)
	}
	spans := 0
	for _, x := range s.log.Damage() {
		if !x.Torn {
			spans++
			all = append(all, x.Segment)
		}
	}
	out := Damage{Quarantined: len(q), Damaged: len(d), LogSpans: spans}
	if len(all) > 0 {
		out.First = all[0]
	}
	return out
}
