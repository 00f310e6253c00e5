package query

import (
	"context"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/admission"
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

// showing returns what a statement that shows something needs.
func (s *session) showing() *show.Statement {
	return &show.Statement{
		Options: &s.show, Ctx: s.ctx, RetentionPolicy: s.req.RetentionPolicy, User: s.req.User,
		MayRead: s.req.MayRead, MaySee: s.req.MaySee, Keep: s.claim.Keep,
	}
}

// killQuery runs KILL QUERY.
func (s *session) killQuery(st *influxql.KillQueryStatement) error {
	return s.queries.Kill(st.QueryID)
}
