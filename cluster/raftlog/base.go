package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// Base is where the log of a node begins, for raft: everything up to Index is in the
// files of the store. The log may still have entries up to Index, for members that are
// behind. The zero Index is the beginning of a new cluster.
type Base struct {
	Index, Term uint64
	// Sequence is that of the store after the entry Index.
	Sequence uint64
	// Configuration is in force at Index, since ConfigurationIndex.
	Configuration      raft.Configuration
	ConfigurationIndex uint64
}

const (
	baseName  = "base"
	baseMagic = "TSDBDRFB"
	baseSlot  = 64 << 10
	// A payload: log 16 | segment u64 | index u64 | term u64 | sequence u64 |
	// configuration index u64 | configuration, as raft.EncodeConfiguration.
	basePayloadBytes = 56
)

// baseFile is the content of the file base.
type baseFile struct {
	id      identity.Lineage // of the log
	segment uint64           // a segment with this number was begun; 0: none
	base    Base
}

func (b *baseFile) encode() []byte {
	out := append([]byte(nil), b.id[:]...)
	for _, v := range []uint64{b.segment, b.base.Index, b.base.Term, b.base.Sequence, b.base.ConfigurationIndex} {
		out = binary.LittleEndian.AppendUint64(out, v)
	}
	return append(out, raft.EncodeConfiguration(b.base.Configuration)...)
}

func decodeBase(payload []byte) (b baseFile, err error) {
	if len(payload) < basePayloadBytes {
		return b, binio.Corruptf("", 0, "base is cut")
	}
	copy(b.id[:], payload)
	for i, v := range []*uint64{&b.segment, &b.base.Index, &b.base.Term, &b.base.Sequence, &b.base.ConfigurationIndex} {
		*v = binary.LittleEndian.Uint64(payload[16+8*i:])
	}
	if b.base.Configuration, err = decodeConfiguration(payload[basePayloadBytes:]); err != nil {
		return b, binio.Corruptf("", 0, "configuration in base: %v", err)
	}
	if b.segment > maxNumber || b.base.Index > maxIndex || b.base.ConfigurationIndex > b.base.Index {
		return b, binio.Corruptf("", 0, "base makes no sense")
	}
	return b, nil
}

// Create makes a log in dir that begins after base. It refuses a directory that has a
// log. After a crash in Create there is none, and Create may be called again.
func Create(fsys vfs.FS, dir string, base Base) error {
	return create(fsys, dir, baseFile{id: identity.NewLineage(), base: base})
}

func create(fsys vfs.FS, dir string, b baseFile) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("create raft log %s: %w", dir, err)
		}
	}()
	if b.base.ConfigurationIndex > b.base.Index || b.base.Index > maxIndex {
		return errors.New("its base makes no sense")
	}
	if err := fsys.MkdirAll(dir); err != nil {
		return err
	}
	names, err := fsys.List(dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		if _, ok := parseName(name); ok || name == baseName {
			return fmt.Errorf("%s: %w", path.Join(dir, name), fs.ErrExist)
		}
	}
	// The base comes last: without it there is no log.
	if err := createPair(fsys, dir, path.Join(dir, stableName), stableMagic, stableSlot, (&stable{}).encode()); err != nil {
		return err
	}
	if err := fsys.SyncDir(path.Dir(path.Clean(dir))); err != nil {
		return err
	}
	return createPair(fsys, dir, path.Join(dir, baseName), baseMagic, baseSlot, b.encode())
}

// Base returns where the log begins for raft.
func (s *Store) Base() Base {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.base.base
}

// SetBase makes index the base, durably: term is that of the entry, sequence that of
// the store after it. Then it removes the oldest segments, as far as all their entries are
// below the base and the other segments hold at least keep bytes. (raft may ask for the term
// of the base itself.) A base that is not above the present one only removes segments.
func (s *Store) SetBase(index, term, sequence uint64, keep int64) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if err := s.usable(); err != nil {
		return err
	}
	if index > s.base.base.Index {
		var l raft.Log
		if err := s.GetLog(index, &l); err != nil {
			return fmt.Errorf("set base of raft log %s to %d: %w", s.dir, index, err)
		}
		if l.Term != term {
			return fmt.Errorf("set base of raft log %s to %d: its term is %d, not %d", s.dir, index, l.Term, term)
		}
		next := s.base
		next.base = Base{Index: index, Term: term, Sequence: sequence}
		next.base.Configuration, next.base.ConfigurationIndex = s.Configuration(index)
		if err := s.saveBase(next); err != nil {
			return err
		}
	}
	return s.trim(keep)
}

// saveBase replaces the file base. The caller holds writing.
func (s *Store) saveBase(next baseFile) error {
	if err := s.basePair.write(next.encode()); err != nil {
		return fmt.Errorf("save base of raft log: %w", err)
	}
	s.mu.Lock()
	s.base = next
	s.mu.Unlock()
	return nil
}

// trim removes segments for SetBase. The caller holds writing.
func (s *Store) trim(keep int64) error {
	for {
		s.mu.Lock()
		var rest int64
		for _, g := range s.segments[min(1, len(s.segments)):] {
			rest += g.end
		}
		if len(s.segments) < 2 || rest < keep || len(s.segments[0].positions) > 0 && s.segments[0].last() >= s.base.base.Index {
			s.mu.Unlock()
			return nil
		}
		gone := s.segments[0]
		s.segments = s.segments[1:]
		if len(gone.positions) > 0 {
			s.first = gone.last() + 1
		}
		s.configurations = slices.DeleteFunc(s.configurations, func(c configuration) bool { return c.index < s.first })
		s.mu.Unlock()
		// Each is gone for good before the next: a crash leaves no hole. It is closed first,
		// because some systems do not remove open files.
		err := gone.close()
		if err == nil {
			err = s.fs.Remove(gone.path)
		}
		if err == nil {
			err = s.fs.SyncDir(s.dir)
		}
		if err != nil {
			return s.fail(fmt.Errorf("remove segment of raft log %s: %w", gone.path, err))
		}
	}
}

// Configuration returns the configuration in force at an index and the index of the
// entry that set it. It knows those of the entries in the log and that of the base; for
// an index before these it returns nothing.
func (s *Store) Configuration(index uint64) (raft.Configuration, uint64) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for i := len(s.configurations) - 1; i >= 0; i-- {
		if c := s.configurations[i]; c.index <= index {
			return c.configuration.Clone(), c.index
		}
	}
	if b := s.base.base; b.ConfigurationIndex <= index {
		return b.Configuration.Clone(), b.ConfigurationIndex
	}
	return raft.Configuration{}, 0
}
