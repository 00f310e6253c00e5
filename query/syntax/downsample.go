package syntax

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"
)

// CreateDownsample is CREATE DOWNSAMPLE: a policy that keeps aggregates of another one.
type CreateDownsample struct {
	extended
	Database, From, Into string
	Every                time.Duration
	Functions            []string      // in lower case
	Where                influxql.Expr // nil: all rows
}

// downsampleFunctions are the functions that a downsample may have. Each takes one
// field and gives one value for a window.
var downsampleFunctions = []string{"count", "first", "last", "max", "mean", "median", "min", "mode", "spread", "stddev", "sum"}

// maxConditionParts bounds a condition, which the catalog keeps.
const maxConditionParts = 1000

// parseCreateDownsample reads ON database FROM policy INTO policy EVERY duration
// AS function [, function ...] [WHERE condition].
func parseCreateDownsample(p *influxql.Parser) (influxql.Statement, error) {
	st := &CreateDownsample{}
	var err error
	if err = parsePolicies(p, &st.Database, &st.From, &st.Into); err != nil {
		return nil, err
	}
	if err = expect(p, influxql.EVERY); err != nil {
		return nil, err
	}
	if st.Every, err = p.ParseDuration(); err != nil {
		return nil, err
	}
	if err = expect(p, influxql.AS); err != nil {
		return nil, err
	}
	names, err := p.ParseIdentList()
	if err != nil {
		return nil, err
	}
	for _, name := range names {
		name = strings.ToLower(name)
		if !slices.Contains(downsampleFunctions, name) {
			return nil, fmt.Errorf("a downsample has no function %s, only %s", name, strings.Join(downsampleFunctions, ", "))
		}
		st.Functions = append(st.Functions, name)
	}
	if next(p, influxql.WHERE) {
		if st.Where, err = p.ParseExpr(); err != nil {
			return nil, err
		}
		parts := 0
		influxql.WalkFunc(st.Where, func(influxql.Node) { parts++ })
		if parts > maxConditionParts {
			return nil, fmt.Errorf("the condition of a downsample has more than %d parts", maxConditionParts)
		}
		if influxql.HasTimeExpr(st.Where) {
			return nil, errors.New("the condition of a downsample has no time")
		}
	}
	return st, nil
}

// parsePolicies reads ON database FROM policy INTO policy.
func parsePolicies(p *influxql.Parser, database, from, into *string) (err error) {
	for _, part := range []struct {
		word influxql.Token
		name *string
	}{{influxql.ON, database}, {influxql.FROM, from}, {influxql.INTO, into}} {
		if err = expect(p, part.word); err != nil {
			return err
		}
		if *part.name, err = p.ParseIdent(); err != nil {
			return err
		}
	}
	return nil
}

func policiesText(database, from, into string) string {
	return " ON " + influxql.QuoteIdent(database) + " FROM " + influxql.QuoteIdent(from) + " INTO " + influxql.QuoteIdent(into)
}

func (st *CreateDownsample) condition() influxql.Expr { return st.Where }

// String returns the statement's text.
func (st *CreateDownsample) String() string {
	text := "CREATE DOWNSAMPLE" + policiesText(st.Database, st.From, st.Into) +
		" EVERY " + influxql.FormatDuration(st.Every) + " AS " + strings.Join(st.Functions, ", ")
	if st.Where != nil {
		text += " WHERE " + st.Where.String()
	}
	return text
}

// DropDownsample is DROP DOWNSAMPLE.
type DropDownsample struct {
	extended
	Database, From, Into string
}

// parseDropDownsample reads ON database FROM policy INTO policy.
func parseDropDownsample(p *influxql.Parser) (influxql.Statement, error) {
	st := &DropDownsample{}
	return st, parsePolicies(p, &st.Database, &st.From, &st.Into)
}

// String returns the statement's text.
func (st *DropDownsample) String() string {
	return "DROP DOWNSAMPLE" + policiesText(st.Database, st.From, st.Into)
}

// SkipWindows is ALTER DOWNSAMPLE ... SKIP BEFORE: windows that are given up.
type SkipWindows struct {
	extended
	Database, From, Into string
	Before               int64 // ns since the epoch
}

// parseSkipWindows reads ON database FROM policy INTO policy SKIP BEFORE 'time'.
func parseSkipWindows(p *influxql.Parser) (influxql.Statement, error) {
	st := &SkipWindows{}
	err := parsePolicies(p, &st.Database, &st.From, &st.Into)
	for _, word := range []string{"SKIP", "BEFORE"} {
		if err == nil {
			err = expectWord(p, word)
		}
	}
	if err == nil {
		st.Before, err = parseTime(p)
	}
	return st, err
}

// String returns the statement's text.
func (st *SkipWindows) String() string {
	return "ALTER DOWNSAMPLE" + policiesText(st.Database, st.From, st.Into) + " SKIP BEFORE " + quoteTime(st.Before)
}

// ShowDownsamples is SHOW DOWNSAMPLES: the downsamples and how far they are.
type ShowDownsamples struct{ extended }

func parseShowDownsamples(*influxql.Parser) (influxql.Statement, error) {
	return &ShowDownsamples{}, nil
}

// String returns the statement's text.
func (*ShowDownsamples) String() string { return "SHOW DOWNSAMPLES" }
