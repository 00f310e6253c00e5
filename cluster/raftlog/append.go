package raftlog

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
)

// truncateRoom is the room for entries that DeleteRange demands.
const truncateRoom = 8 << 20

// keepBytes is the largest buffer that is kept for reuse.
const keepBytes = 8 << 20

// StoreLog implements raft.LogStore.
func (s *Store) StoreLog(l *raft.Log) error { return s.StoreLogs([]*raft.Log{l}) }

// StoreLogs implements raft.LogStore. The entries go on where the log ends. They are
// durable when it returns nil: all of them have been written by one write and one sync.
//
// After an error none of them is in the log. If the disk is full (vfs.IsFull), a later
// call may succeed. After any other error of the disk the log accepts no change until it
// is opened again, and Open may find the entries, all or none.
func (s *Store) StoreLogs(logs []*raft.Log) error {
	if len(logs) == 0 {
		return nil
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	length := int64(batchHeaderBytes + 1)
	var added []configuration
	for i, l := range logs {
		// Only the holder of writing changes next.
		if l.Index != s.next+uint64(i) {
			return fmt.Errorf("store entry %d in the raft log: the next one is %d", l.Index, s.next+uint64(i))
		}
		if l.Type == raft.LogConfiguration {
			c, err := decodeConfiguration(l.Data)
			if err != nil {
				return fmt.Errorf("store entry %d in the raft log: %w", l.Index, err)
			}
			added = append(added, configuration{l.Index, c})
		}
		length += entryBytes(l)
	}
	if length > maxBatchBytes {
		return fmt.Errorf("store entries from %d on in the raft log: %d bytes exceed the limit of %d", logs[0].Index, length, maxBatchBytes)
	}
	h := batchHeader{length: length, index: logs[0].Index, count: len(logs), kind: kindEntries}
	positions := make([]uint32, len(logs))
	g, err := s.active(length)
	if err == nil {
		err = s.write(g, h, func(dst []byte) []byte {
			for i, l := range logs {
				positions[i] = uint32(position(g.end) + int64(len(dst)))
				dst = appendEntry(dst, g.salt(), l)
			}
			return dst
		})
	}
	if err != nil {
		return fmt.Errorf("store entries from %d on in the raft log: %w", logs[0].Index, err)
	}
	s.mu.Lock()
	g.end += sectorsOf(length) * sectorBytes
	s.add(g, h.index, positions, added)
	s.mu.Unlock()
	s.prepareAhead(g)
	return nil
}

// contents are where the entries of a log are.
type contents struct {
	segments       []*segment // oldest first; the last one is written to
	first, next    uint64     // of the entries: [first, next)
	configurations []configuration
}

// add adds entries from index on, which are in segment g.
func (s *contents) add(g *segment, index uint64, positions []uint32, configurations []configuration) {
	if len(g.positions) == 0 {
		g.first = index
	}
	g.positions = append(g.positions, positions...)
	s.configurations = append(s.configurations, configurations...)
	s.next = index + uint64(len(positions))
}

// DeleteRange implements raft.LogStore for the end of the log: the entries from min on,
// which must be above the base. They do not come back after DeleteRange has returned nil.
// The beginning of the log is removed by SetBase alone.
func (s *Store) DeleteRange(minIndex, maxIndex uint64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if minIndex > maxIndex || minIndex >= s.next || s.first == s.next {
		return nil
	}
	minIndex = max(minIndex, s.first)
	if maxIndex < s.next-1 {
		return fmt.Errorf("delete entries %d to %d of the raft log: the last one is %d", minIndex, maxIndex, s.next-1)
	}
	if minIndex <= s.base.base.Index {
		return fmt.Errorf("delete entries from %d on of the raft log: those up to the base %d stay", minIndex, s.base.base.Index)
	}
	if c := s.staged.Load(); minIndex <= c {
		s.logger.Error("raft log not truncated: what goes is committed", "from", minIndex, "commit", c)
		return fmt.Errorf("delete entries from %d on of the raft log: those up to %d: %w", minIndex, c, ErrCommitted)
	}
	// raft does not notice that it must not go on with the old end of the log if entries
	// are deleted and the ones in their place cannot be stored. So there must be room first.
	g, err := s.active(min(truncateRoom, s.opt.SegmentBytes/4))
	if err == nil {
		err = s.writeMark(g, kindTruncate, minIndex-1)
	}
	if err != nil {
		return fmt.Errorf("delete entries from %d on of the raft log: %w", minIndex, err)
	}
	s.mu.Lock()
	s.truncate(minIndex - 1)
	s.mu.Unlock()
	return nil
}

// truncate forgets the entries above index.
func (s *contents) truncate(index uint64) {
	for _, g := range slices.Backward(s.segments) {
		if len(g.positions) == 0 {
			continue
		}
		if index >= g.first {
			g.positions = g.positions[:min(index+1-g.first, uint64(len(g.positions)))]
			break
		}
		g.positions = nil
	}
	s.configurations = slices.DeleteFunc(s.configurations, func(c configuration) bool { return c.index > index })
	s.next = index + 1
	s.first = min(s.first, s.next)
}

// writeClosed writes the batch that says that the log was closed.
func (s *Store) writeClosed() error {
	if s.usable() != nil || s.sealed || s.spoiled || len(s.segments) == 0 {
		return nil
	}
	g := s.segments[len(s.segments)-1]
	if g.end+sectorBytes > g.size {
		return nil
	}
	err := s.writeMark(g, kindClosed, s.next-1)
	if vfs.IsFull(err) {
		return nil // it is only a mark
	}
	return err
}

// writeMark puts a batch without entries at the end of a segment, durably.
func (s *Store) writeMark(g *segment, kind byte, index uint64) error {
	if err := s.write(g, batchHeader{length: batchHeaderBytes + 1, index: index, kind: kind}, nil); err != nil {
		return err
	}
	s.mu.Lock()
	g.end += sectorBytes
	s.mu.Unlock()
	return nil
}

// write puts a batch at the end of a segment, durably, with the commit index. The caller
// moves the end. body appends the entries.
func (s *Store) write(g *segment, h batchHeader, body func(dst []byte) []byte) error {
	h.commit = min(s.staged.Load(), s.next-1)
	stream := appendBatchHeader(s.buffers[0][:0], g.salt(), g.end, h)
	if body != nil {
		stream = body(stream)
	}
	stream = append(stream, endMark)
	if int64(len(stream)) != h.length {
		return errors.New("an entry changed while it was stored")
	}
	sectors := appendSectors(s.buffers[1][:0], stream)
	// Zeros behind it make it end with a page, which the system needs not read first.
	pages := sectors
	if n := min(g.size-g.end-int64(len(sectors)), -(g.end+int64(len(sectors)))&(vfs.PageBytes-1)); n > 0 {
		pages = append(pages, zeroPage[:n]...)
	}
	if cap(pages) <= keepBytes {
		s.buffers = [2][]byte{stream, pages}
	}
	// The batch is whole without the rest of the page.
	if n, err := g.file.WriteAt(pages, g.end); err != nil && n < len(sectors) {
		err = fmt.Errorf("write %s: %w", g.path, err)
		if !vfs.IsFull(err) {
			return s.fail(err)
		}
		// What was written is not whole, and nothing is written behind it.
		s.spoiled = true
		return err
	}
	wrote := time.Now()
	if err := g.file.SyncData(); err != nil {
		return s.fail(fmt.Errorf("sync %s: %w", g.path, err))
	}
	s.sealed = h.kind == kindClosed
	s.kept.Store(h.commit)
	s.counters.syncs.Add(1)
	s.counters.syncTime.Add(int64(time.Since(wrote)))
	return nil
}
