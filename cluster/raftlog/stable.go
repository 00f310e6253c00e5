package raftlog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tsdbd/internal/binio"
)

const (
	stableName  = "stable"
	stableMagic = "TSDBDRFS"
	stableSlot  = 4 << 10
)

// errNotFound has the text that raft compares with.
var errNotFound = errors.New("not found")

// stable is what raft keeps apart from the log: its term and its vote. A payload is a
// list, sorted by key: (length uv, key, length uv, value)*. Numbers are 8 bytes.
type stable struct{ values map[string][]byte }

func (s *stable) encode() []byte {
	var b []byte
	for _, k := range slices.Sorted(maps.Keys(s.values)) {
		b = binio.AppendString(b, k)
		b = binio.AppendString(b, string(s.values[k]))
	}
	return b
}

func decodeStable(payload []byte) (stable, error) {
	s := stable{values: map[string][]byte{}}
	d := binio.NewDecoder(payload)
	for d.Len() > 0 {
		k := d.String()
		s.values[k] = []byte(d.String())
	}
	return s, d.Err()
}

// Get implements raft.StableStore. A key that is not there is an error with the text
// "not found", as raft expects.
func (s *Store) Get(key []byte) ([]byte, error) {
	if err := s.readable(); err != nil {
		return nil, err
	}
	s.stableMu.Lock()
	defer s.stableMu.Unlock()
	v, ok := s.stable.values[string(key)]
	if !ok {
		return nil, errNotFound
	}
	return slices.Clone(v), nil
}

// Set implements raft.StableStore. The value is durable when Set returns nil.
func (s *Store) Set(key, value []byte) error {
	if err := s.usable(); err != nil {
		return err
	}
	s.stableMu.Lock()
	defer s.stableMu.Unlock()
	if old, ok := s.stable.values[string(key)]; ok && string(old) == string(value) {
		return nil
	}
	next := stable{values: maps.Clone(s.stable.values)}
	next.values[string(key)] = slices.Clone(value)
	if err := s.stablePair.write(next.encode()); err != nil {
		return fmt.Errorf("set %q: %w", key, err)
	}
	s.stable = next
	return nil
}

// GetUint64 implements raft.StableStore. A key that is not there is 0.
func (s *Store) GetUint64(key []byte) (uint64, error) {
	v, err := s.Get(key)
	switch {
	case errors.Is(err, errNotFound):
		return 0, nil
	case err != nil:
		return 0, err
	case len(v) != 8:
		return 0, fmt.Errorf("get %q: value of %d bytes is no number", key, len(v))
	}
	return binary.LittleEndian.Uint64(v), nil
}

// SetUint64 implements raft.StableStore. The value is durable when SetUint64 returns nil.
func (s *Store) SetUint64(key []byte, value uint64) error {
	return s.Set(key, binary.LittleEndian.AppendUint64(nil, value))
}
