// Package inputtest has a store for tests of inputs.
package inputtest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// Store is an input.Writer that keeps points as text. The zero value has no
// database.
type Store struct {
	mu struct {
		sync.Mutex
		tables   map[string]*point.Table
		made     uint32          // tables, with those that were dropped
		policies map[string]bool // "db.rp"
		points   []string
		batches  int
	}
	// Fail is asked before every write; the write fails with what it returns.
	// It must be set before the store is used.
	Fail func() error
}

// Ensure implements input.Writer.
func (s *Store) Ensure(_ context.Context, db, rp string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.tables == nil {
		s.mu.tables, s.mu.policies = map[string]*point.Table{}, map[string]bool{}
	}
	if s.mu.tables[db] == nil {
		s.mu.made++
		s.mu.tables[db] = point.NewTable(s.mu.made)
		s.mu.policies[db+"."] = true
	}
	s.mu.policies[db+"."+rp] = true
	return nil
}

// Drop drops a database, or the policy of a database if rp names one.
func (s *Store) Drop(db, rp string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if rp == "" {
		delete(s.mu.tables, db)
	}
	delete(s.mu.policies, db+"."+rp)
}

// Table implements input.Writer.
func (s *Store) Table(db string) (*point.Table, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := s.mu.tables[db]; t != nil {
		return t, nil
	}
	return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, db)
}

// Write implements input.Writer.
func (s *Store) Write(ctx context.Context, db, rp string, b *point.Batch) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if s.Fail != nil {
		if err := s.Fail(); err != nil {
			return err
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch t := s.mu.tables[db]; {
	case t == nil || t.Database() != b.Database:
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, db)
	case !s.mu.policies[db+"."+rp]:
		return fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, rp)
	}
	s.mu.batches++
	for _, r := range b.Rows {
		line := r.Series.Key()
		for i, f := range r.Layout.Fields {
			word := b.Values[int(r.First)+i]
			value := fmt.Sprint(word)
			switch f.Type {
			case model.Float:
				value = fmt.Sprint(math.Float64frombits(word))
			case model.String:
				value = fmt.Sprintf("%q", column.StringAt(word, b.Strings))
			}
			separator := ","
			if i == 0 {
				separator = " "
			}
			line += separator + f.Key + "=" + value
		}
		s.mu.points = append(s.mu.points, fmt.Sprintf("%s %d", line, r.Time))
	}
	return nil
}

// Points returns what was written, sorted, a line each.
func (s *Store) Points() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	sorted := slices.Clone(s.mu.points)
	slices.Sort(sorted)
	return strings.Join(sorted, "\n")
}

// Count returns the number of points and batches written.
func (s *Store) Count() (points, batches int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.mu.points), s.mu.batches
}
