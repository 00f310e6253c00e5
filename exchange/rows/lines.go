package rows

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tsdbd/lineproto/wire"
	"tsdbd/model/column"
)

// Lines returns the runs of r as line protocol with times in nanoseconds, below the
// headers "# CONTEXT-DATABASE:" and "# CONTEXT-RETENTION-POLICY:", as an import
// reads them. An error of r is the error of Read. The caller closes r.
func Lines(ctx context.Context, r Reader, database, policy string) (io.Reader, error) {
	header, err := Header(database, policy)
	if err != nil {
		return nil, err
	}
	return &lines{ctx: ctx, r: r, buf: header}, nil
}

// The headers of exported rows. The name is behind them on the line.
const (
	DatabaseHeader = "# CONTEXT-DATABASE:"
	PolicyHeader   = "# CONTEXT-RETENTION-POLICY:"
)

// Header returns the headers of the rows of a retention policy.
func Header(database, policy string) ([]byte, error) {
	if strings.ContainsAny(database+policy, "\r\n") {
		return nil, errors.New("a name with a line break cannot be written in a header")
	}
	return fmt.Appendf(nil, "%s%s\n%s%s\n", DatabaseHeader, database, PolicyHeader, policy), nil
}

type lines struct {
	ctx context.Context
	r   Reader
	buf []byte // text of the present run
	at  int    // bytes of buf that were read
	err error
	to  LineWriter
}

func (l *lines) Read(p []byte) (int, error) {
	for l.at == len(l.buf) {
		if l.err != nil {
			return 0, l.err
		}
		var run *Run
		if run, l.err = l.r.Next(l.ctx); l.err == nil {
			l.buf, l.at = l.buf[:0], 0
			l.to.Begin(run)
			for row := range run.Times {
				l.buf = l.to.AppendRow(l.buf, row)
			}
		}
	}
	n := copy(p, l.buf[l.at:])
	l.at += n
	return n, nil
}

// LineWriter writes the rows of runs as line protocol.
type LineWriter struct {
	run      *Run
	key      string // of the latest run
	series   []byte // its text
	fields   []column.Field
	prefixes []string // the texts before the values
}

// Begin begins a run.
func (l *LineWriter) Begin(run *Run) {
	if l.run = run; run.Key != l.key || l.series == nil {
		l.key, l.series = run.Key, wire.AppendSeries(l.series[:0], run.Key)
	}
	if !slices.Equal(run.Fields, l.fields) {
		l.fields, l.prefixes = append(l.fields[:0], run.Fields...), l.prefixes[:0]
		for _, f := range run.Fields {
			l.prefixes = append(l.prefixes, wire.FieldPrefix(f.Key))
		}
	}
}

// AppendRow appends the line of a row of the run, with a line break. A row without values has
// no line.
func (l *LineWriter) AppendRow(dst []byte, row int) []byte {
	return wire.AppendRow(dst, l.series, l.prefixes, l.run.Cols, row, l.run.Times[row])
}
