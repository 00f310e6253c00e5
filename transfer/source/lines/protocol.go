package lines

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"tsdbd/exchange"
	"tsdbd/lineproto"
	"tsdbd/transfer/mover"
)

// maxLine bounds a line: some strings of the greatest length.
const maxLine = 4 << 20

// protocol passes on lines of line protocol.
type protocol struct {
	to         mover.Lines
	line       mover.Line // with the place of the lines that follow
	statements bool       // in a DDL section
	exact      bool       // the headers are those of Export
}

// Protocol passes on line protocol. Headers may precede lines as Export writes them: "# DDL"
// before statements, "# DML" before points, and "# CONTEXT-DATABASE:" and
// "# CONTEXT-RETENTION-POLICY:" before the points of a policy. Protocol ignores other
// comments. Lines before the first header go to a database and a policy.
func Protocol(r *bufio.Reader, database, policy string, to mover.Lines) error {
	p := &protocol{to: to, line: mover.Line{Database: database, Policy: policy}}
	return p.read(r)
}

// read takes the input apart.
func (p *protocol) read(r *bufio.Reader) error {
	var kept []byte // of the line: all of it, unless it is too long
	var line lineproto.Line
	length, breaks, number := 0, 0, 1
	for {
		part, err := r.ReadSlice('\n')
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, bufio.ErrBufferFull) {
			return fmt.Errorf("read lines: %w", err)
		}
		length += len(part)
		kept = appendStart(kept, part)
		_, ended := line.End(part)
		if err == nil {
			breaks++
			ended = ended || p.statements
		}
		end := errors.Is(err, io.EOF)
		if !ended && !end {
			continue
		}
		inner := breaks // line breaks within the line
		if ended {
			inner--
		}
		switch {
		case length > maxLine && !isComment(kept):
			err = p.refuse(number, inner, kept, fmt.Sprintf("the line has %d bytes, more than %d", length, maxLine))
		case !p.statements && line.Quoted():
			err = p.refuse(number, inner, kept, "the line has a string without its end")
		case !p.statements && line.Escaped():
			err = p.refuse(number, inner, kept, "the line ends with a backslash")
		default:
			err = p.take(kept)
		}
		if err != nil || end {
			return err
		}
		kept, line = kept[:0], lineproto.Line{}
		number += breaks
		length, breaks = 0, 0
	}
}

// tailBytes is how much is kept of the end of a line that is too long.
const tailBytes = 100

// appendStart appends a part of a line. Of a line that is too long it keeps the start and
// the end.
func appendStart(kept, part []byte) []byte {
	if len(kept) <= maxLine {
		n := min(len(part), maxLine+1-len(kept))
		kept, part = append(kept, part[:n]...), part[n:]
	}
	if len(part) == 0 {
		return kept
	}
	tail := append(kept[maxLine+1:], part[max(0, len(part)-tailBytes):]...)
	tail = tail[max(0, len(tail)-tailBytes):]
	return append(kept[:maxLine+1], tail...)
}

// refuse refuses a line, and keeps it as a comment: as a line it would swallow the lines behind
// it, or be another point.
func (p *protocol) refuse(number, breaks int, line []byte, reason string) error {
	if breaks > 0 {
		reason += fmt.Sprintf(", and %d line breaks", breaks)
	}
	line = bytes.TrimRight(line, "\r\n")
	refused := p.line
	if len(line) > maxLine {
		refused.Text = fmt.Appendf(nil, "# %s: %q ... %q", reason, line[:1000], line[len(line)-tailBytes:])
	} else {
		refused.Text = fmt.Appendf(nil, "# %s: %q", reason, line)
	}
	return p.to.Refuse(fmt.Sprintf("line %d: %s: %.200q", number, reason, line), &refused)
}

// lineStart are the bytes that InfluxDB skips at the start of a line. A "#" behind them
// begins a comment.
const lineStart = " \t\x00"

// isComment reports whether a line is a comment or a header.
func isComment(line []byte) bool {
	return bytes.HasPrefix(bytes.TrimLeft(line, lineStart), []byte{'#'})
}

// take takes one line, with its line break.
func (p *protocol) take(line []byte) error {
	text := bytes.TrimLeft(bytes.TrimRight(line, "\r\n"), lineStart)
	switch {
	case len(text) == 0:
		return nil
	case text[0] == '#':
		p.header(string(text[1:]))
		return nil
	case p.statements:
		return p.to.Query(string(bytes.TrimSpace(text)))
	case p.line.Database == "":
		return errors.New("no database: name one with -db, or give a file with a \"# CONTEXT-DATABASE:\" header")
	}
	p.line.Text = trimReturn(line)
	return p.to.Put(&p.line)
}

// trimReturn returns a line without its line break, also that of Windows. A backslash before
// the latter keeps it: at the end of the line it would hide the line break.
func trimReturn(line []byte) []byte {
	line = bytes.TrimSuffix(line, []byte{'\n'})
	if short, ok := bytes.CutSuffix(line, []byte{'\r'}); ok && !bytes.HasSuffix(short, []byte{'\\'}) {
		return short
	}
	return line
}

// header takes a comment; those that mean nothing are passed over.
func (p *protocol) header(text string) {
	text = strings.TrimLeft(text, " ")
	name := strings.TrimSpace
	if p.exact {
		name = strings.Clone // a name may begin or end with a space
	}
	if v, ok := strings.CutPrefix(text, "CONTEXT-DATABASE:"); ok {
		p.line.Database, p.line.Policy = name(v), ""
	} else if v, ok := strings.CutPrefix(text, "CONTEXT-RETENTION-POLICY:"); ok {
		p.line.Policy = name(v)
	} else if text = strings.TrimSpace(text); text == "DDL" {
		p.statements = true
	} else if text == "DML" {
		p.statements = false
	} else {
		p.exact = p.exact || strings.HasPrefix(text, exchange.ExportTitle)
	}
}
