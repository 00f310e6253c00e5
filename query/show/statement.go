package show

import (
	"context"
	"fmt"
	"slices"
	"time"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// Options is what the statements of a server share.
type Options struct {
	Storage scan.Storage
	// Catalog returns the present catalog.
	Catalog func() *meta.Data
	Running *admission.Queries
	Now     func() time.Time
	Started time.Time // the server
	// Statistics and Diagnostics give what SHOW STATS and SHOW DIAGNOSTICS
	// show in addition; nil is nothing.
	Statistics  func() []Statistic
	Diagnostics func() []Diagnostic
	// Servers gives the tables of SHOW SERVERS; nil is a node that is in no cluster.
	Servers func() []*result.Series
	// Downsamples gives how far downsamples are, by their ids; nil is nothing.
	Downsamples func() map[uint64]Progress
}

// Statement is one statement under way. Its methods answer statements that were
// normalized.
type Statement struct {
	*Options
	Ctx             context.Context
	RetentionPolicy string // of sources that name none; "" is the default policy
	User            string
	// MayRead and MaySee tell whether the user may read a database, and whether
	// it may be named to the user; nil is all. With MayRead the user sees no
	// running queries but its own.
	MayRead, MaySee func(database string) bool
	// Keep accounts for bytes that are held to the end of the statement.
	Keep func(bytes int64) error
	// Warn takes what the answer lacks; nil if it may lack nothing.
	Warn func(text string)
}

// Database returns the database that a statement is about.
func (s *Statement) Database(name string) (*meta.Database, error) {
	if name == "" {
		return nil, syntax.ErrDatabaseNameRequired
	}
	db := s.Catalog().Database(name)
	if db == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, name)
	}
	return db, nil
}

// readable returns the databases that the user may read.
func (s *Statement) readable() []*meta.Database {
	return slices.DeleteFunc(slices.Clone(s.Catalog().Databases), func(db *meta.Database) bool { return s.MayRead != nil && !s.MayRead(db.Name) })
}
