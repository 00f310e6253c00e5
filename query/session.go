package query

import (
	"context"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/show"
)

// session is one statement under way.
type session struct {
	*Executor
	ctx     context.Context
	req     ExecuteOptions
	out     *output
	workers int              // goroutines that the statement may use; 0 is one per core
	claim   *admission.Claim // of what is held outside of package engine
}

// catalog returns the present catalog.
func (s *session) catalog() *meta.Data { return s.opt.Admin.Catalog() }

// storage returns what the statement reads.
func (s *session) storage() scan.Storage {
	if s.req.Partial {
		return s.opt.Storage.Partial()
	}
	return s.opt.Storage
}

// showing returns what a statement that shows something needs.
func (s *session) showing() *show.Statement {
	options := s.show
	options.Storage = s.storage()
	return &show.Statement{
		Options: &options, Ctx: s.ctx, RetentionPolicy: s.req.RetentionPolicy, User: s.req.User,
		MayRead: s.req.MayRead, MaySee: s.req.MaySee, Keep: s.claim.Keep, Warn: s.warn,
	}
}

// warn adds a warning to the answer.
func (s *session) warn(text string) {
	s.out.messages = append(s.out.messages, result.Message{Level: "warning", Text: text})
}

// killQuery runs KILL QUERY.
func (s *session) killQuery(st *influxql.KillQueryStatement) error {
	return s.queries.Kill(st.QueryID)
}
