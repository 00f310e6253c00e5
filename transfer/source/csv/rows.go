package csv

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxRow bounds a row: some strings of the greatest length.
const maxRow = 4 << 20

// errSampled ends a sample before a row that is too long to be kept.
var errSampled = errors.New("end of the sample")

// rowError is a row without cells, because of its quotes or its length.
type rowError struct {
	line   int    // number of its first line
	row    []byte // valid until the next row is read
	reason string
}

// Error returns the reason.
func (e *rowError) Error() string { return fmt.Sprintf("line %d: %s", e.line, e.reason) }

// scanner takes input apart into rows and cells. Empty lines are not rows. A cell in
// quotes may contain separators, line breaks, and quotes written twice.
type scanner struct {
	r         io.Reader
	separator byte
	buf       []byte // buf[pos:end] is read and not taken
	pos, end  int
	mark      int // rows from here on can be taken again; -1: none
	markLine  int
	err       error // of r

	next int // the number of the next line

	start    int    // where the row begins in buf, until the next read
	line     int    // the number of the first line of the row
	raw      []byte // the row, without its end of line
	cells    [][]byte
	quoted   []bool // by cell; nil if no cell is in quotes
	unquoted []byte // the cells with doubled quotes

	// comments says that a line that begins with "# " is a comment: quotes have no
	// meaning in it.
	comments bool
}

func newScanner(r io.Reader) *scanner {
	return &scanner{r: r, buf: make([]byte, 256<<10), mark: -1, next: 1}
}

// fill reads more. It returns false at the end of the input.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	keep := s.pos
	if s.mark >= 0 {
		keep = s.mark
	}
	if s.end == len(s.buf) {
		to := s.buf
		if keep < len(s.buf)/2 {
			to = make([]byte, 2*len(s.buf))
		}
		s.end = copy(to, s.buf[keep:s.end])
		s.buf = to
		s.pos -= keep
		if s.mark >= 0 {
			s.mark = 0
		}
	}
	n, err := s.r.Read(s.buf[s.end:])
	s.end += n
	s.err = err
	return n > 0 || err == nil
}

// setMark lets rewind return to the row that begins at line, which is the next one
// or the present one.
func (s *scanner) setMark() { s.mark, s.markLine = s.pos, s.next }

// rewind returns to the mark and removes it.
func (s *scanner) rewind() { s.pos, s.next, s.mark = s.mark, s.markLine, -1 }

// read takes the next row. It returns io.EOF at the end of the input, and a
// *rowError for a row that has no cells because of its quotes.
func (s *scanner) read() error {
	for {
		n, lines, quotes, err := s.extent()
		if err == nil {
			s.line, s.start = s.next, s.pos
			s.next += lines
			s.raw = trimEnd(s.buf[s.pos : s.pos+n])
			s.pos += n
			if len(s.raw) == 0 {
				continue
			}
			if quotes {
				return s.splitQuoted()
			}
			s.split()
			return nil
		}
		return err
	}
}

func trimEnd(row []byte) []byte {
	row = bytes.TrimSuffix(row, []byte{'\n'})
	return bytes.TrimSuffix(row, []byte{'\r'})
}

// extent finds the end of the next row: its length and lines with the end of the last
// line, and whether it contains quotes.
func (s *scanner) extent() (n, lines int, quotes bool, err error) {
	searched, first := 0, 0
	var state quoting
	for {
		i := bytes.IndexByte(s.buf[s.pos+searched:s.end], '\n')
		if i < 0 {
			searched = s.end - s.pos
			if searched <= maxRow && s.fill() {
				continue
			}
			if s.err != nil && !errors.Is(s.err, io.EOF) {
				return 0, 0, false, fmt.Errorf("read rows: %w", s.err)
			}
			if searched == 0 {
				return 0, 0, false, io.EOF
			}
		} else {
			searched += i + 1
		}
		row := s.buf[s.pos : s.pos+searched]
		lines++
		if lines == 1 {
			first = searched
			quotes = bytes.IndexByte(row, '"') >= 0 && !(s.comments && bytes.HasPrefix(row, []byte("# ")))
			if !quotes && searched <= maxRow {
				return searched, 1, false, nil
			}
		}
		open := state.open(row, s.separator)
		switch {
		case !open && searched <= maxRow:
			return searched, lines, quotes, nil
		case i >= 0 && searched <= maxRow:
			continue // the row goes on in the next line
		}
		if s.mark >= 0 && first > maxRow {
			return 0, 0, false, errSampled
		}
		// The row is too long, or the input ends inside quotes, which costs the first
		// line only.
		refused := &rowError{s.next, trimEnd(s.buf[s.pos : s.pos+first]), "quote without its end"}
		s.pos, s.next = s.pos+first, s.next+1
		if first > maxRow {
			refused.row, refused.reason = bytes.Clone(refused.row[:1000]), fmt.Sprintf("the row is longer than %d bytes", maxRow)
			s.skipLine(i >= 0)
		}
		return 0, 0, false, refused
	}
}

// skipLine drops the rest of a line that is too long.
func (s *scanner) skipLine(done bool) {
	for !done {
		i := bytes.IndexByte(s.buf[s.pos:s.end], '\n')
		if i >= 0 {
			s.pos += i + 1
			return
		}
		s.pos = s.end
		done = !s.fill()
	}
}

// quoting finds out whether a row ends inside of quotes. It looks at each byte once.
type quoting struct {
	at     int
	quoted bool
	inside bool // of a cell, behind its first byte
}

// open looks at what row has got since the last call.
func (q *quoting) open(row []byte, separator byte) bool {
	for q.at < len(row) {
		switch {
		case q.quoted:
			i := bytes.IndexByte(row[q.at:], '"')
			if i < 0 {
				q.at = len(row)
				return true
			}
			if q.at += i + 1; q.at < len(row) && row[q.at] == '"' {
				q.at++
			} else {
				q.quoted, q.inside = false, true
			}
		case !q.inside && row[q.at] == '"':
			q.quoted = true
			q.at++
		case row[q.at] == separator:
			q.inside = false
			q.at++
		default:
			i := bytes.IndexByte(row[q.at:], separator)
			if i < 0 {
				q.at = len(row)
				return false
			}
			q.at, q.inside = q.at+i+1, false
		}
	}
	return q.quoted
}

// split takes a row without quotes apart.
func (s *scanner) split() {
	s.cells, s.quoted = s.cells[:0], nil
	rest := s.raw
	for {
		i := bytes.IndexByte(rest, s.separator)
		if i < 0 {
			s.cells = append(s.cells, rest)
			return
		}
		s.cells = append(s.cells, rest[:i])
		rest = rest[i+1:]
	}
}

// splitQuoted takes a row with quotes apart.
func (s *scanner) splitQuoted() error {
	s.cells, s.quoted, s.unquoted = s.cells[:0], s.quoted[:0], s.unquoted[:0]
	if cap(s.unquoted) < len(s.raw) {
		s.unquoted = make([]byte, 0, 2*len(s.raw)) // cells point into it, so that it does not grow
	}
	for rest := s.raw; ; {
		if len(rest) == 0 || rest[0] != '"' {
			i := bytes.IndexByte(rest, s.separator)
			if i < 0 {
				s.cells, s.quoted = append(s.cells, rest), append(s.quoted, false)
				return nil
			}
			s.cells, s.quoted = append(s.cells, rest[:i]), append(s.quoted, false)
			rest = rest[i+1:]
			continue
		}
		rest = rest[1:]
		begin := len(s.unquoted)
		for {
			i := bytes.IndexByte(rest, '"')
			if i < 0 {
				return s.refuse("quote without its end")
			}
			s.unquoted = append(s.unquoted, rest[:i]...)
			if rest = rest[i+1:]; len(rest) == 0 || rest[0] != '"' {
				break
			}
			s.unquoted = append(s.unquoted, '"')
			rest = rest[1:]
		}
		s.cells, s.quoted = append(s.cells, s.unquoted[begin:len(s.unquoted):len(s.unquoted)]), append(s.quoted, true)
		switch {
		case len(rest) == 0:
			return nil
		case rest[0] != s.separator:
			return s.refuse(fmt.Sprintf("text behind the closing quote of cell %d", len(s.cells)))
		}
		rest = rest[1:]
	}
}

func (s *scanner) refuse(reason string) *rowError {
	return &rowError{s.line, s.raw, reason}
}
