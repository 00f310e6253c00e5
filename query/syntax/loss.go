package syntax

import (
	"fmt"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// AcceptLoss is ALTER SHARD ... ACCEPT LOSS: what damage has taken from a shard is given up.
type AcceptLoss struct {
	extended
	Shard uint64 // 0: the log
	Range model.TimeRange
}

// parseAcceptLoss reads id ACCEPT LOSS FROM 'time' TO 'time'. Both times are part of the
// range.
func parseAcceptLoss(p *influxql.Parser) (influxql.Statement, error) {
	st := &AcceptLoss{}
	var err error
	if st.Shard, err = p.ParseUInt64(); err != nil {
		return nil, err
	}
	for _, word := range []string{"ACCEPT", "LOSS"} {
		if err = expectWord(p, word); err != nil {
			return nil, err
		}
	}
	if err = expect(p, influxql.FROM); err != nil {
		return nil, err
	}
	if st.Range.Min, err = parseTime(p); err != nil {
		return nil, err
	}
	if err = expect(p, influxql.TO); err != nil {
		return nil, err
	}
	st.Range.Max, err = parseTime(p)
	return st, err
}

// parseTime reads a time in quotes.
func parseTime(p *influxql.Parser) (int64, error) {
	tok, pos, lit := p.ScanIgnoreWhitespace()
	if tok != influxql.STRING {
		return 0, unexpected(tok, pos, lit, "time in quotes")
	}
	t, err := (&influxql.StringLiteral{Val: lit}).ToTimeLiteral(time.UTC)
	if err != nil {
		return 0, err
	}
	return model.Nanoseconds(t.Val), nil
}

// String returns the statement's text.
func (st *AcceptLoss) String() string {
	return fmt.Sprintf("ALTER SHARD %d ACCEPT LOSS FROM %s TO %s", st.Shard, quoteTime(st.Range.Min), quoteTime(st.Range.Max))
}

// quoteTime returns the text of a time that parseTime reads.
func quoteTime(t int64) string {
	return influxql.QuoteString(time.Unix(0, t).UTC().Format(time.RFC3339Nano))
}
