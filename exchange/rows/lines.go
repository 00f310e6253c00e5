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
// headers "# CONTEXT-DATABASE:" and "# CONTEXT-RETENTION-POLICY:", as transfer.Import
// reads them. An error of r is the error of Read. The caller closes r.
func Lines(ctx context.Context, r Reader, database, policy string) (io.Reader, error) {
	header, err := Header(database, policy)
	if err != nil {
		return nil, err
	}
	return &lines{ctx: ctx, r: r, buf: header}, nil
}

// Header returns the headers of the lines of a retention policy.
func Header(database, policy string) ([]byte, error) {
	if strings.ContainsAny(database+policy, "\r\n") {
		return nil, errors.New("a name with a line break cannot be written in a header")
	}
	return fmt.Appendf(nil, "# CONTEXT-DATABASE:%s\n# CONTEXT-RETENTION-POLICY:%s\n", database, policy), nil
}

type lines struct {
	ctx context.Context
	r   Reader
	buf []byte // text of the present run
	at  int    // bytes of buf that were read
	err error

	key      string // of the latest run
	series   []byte // its text
	fields   []column.Field
	prefixes []string // the texts before the values
}

func (l *lines) Read(p []byte) (int, error) {
	for l.at == len(l.buf) {
		if l.err != nil {
			return 0, l.err
		}
		var run *Run
		if run, l.err = l.r.Next(l.ctx); l.err == nil {
			l.buf, l.at = l.append(l.buf[:0], run), 0
		}
	}
	n := copy(p, l.buf[l.at:])
	l.at += n
	return n, nil
}

func (l *lines) append(dst []byte, run *Run) []byte {
	if run.Key != l.key || l.series == nil {
		l.key, l.series = run.Key, wire.AppendSeries(l.series[:0], run.Key)
	}
	if !slices.Equal(run.Fields, l.fields) {
		l.fields, l.prefixes = append(l.fields[:0], run.Fields...), l.prefixes[:0]
		for _, f := range run.Fields {
			l.prefixes = append(l.prefixes, wire.FieldPrefix(f.Key))
		}
	}
	for row, at := range run.Times {
		dst = wire.AppendRow(dst, l.series, l.prefixes, run.Cols, row, at)
	}
	return dst
}
