package mongo

import (
	"bytes"
	"errors"
	"fmt"
	"io"
)

// maxDocument bounds the text of a document: MongoDB's have 16 MiB, and their text is
// longer.
const maxDocument = 64 << 20

// document is the text of a document, or what is there in place of one and why it is none.
type document struct {
	text   []byte
	line   int // number of its first one
	reason string
}

// scanner takes input apart into the texts of documents.
type scanner struct {
	r    io.Reader
	buf  []byte
	pos  int // what is before is taken
	end  int
	line int // number of the line at pos
	err  error
}

func newScanner(r io.Reader) *scanner { return &scanner{r: r, buf: make([]byte, 256<<10), line: 1} }

// fill reads more. It returns false at the end of the input.
func (s *scanner) fill() bool {
	if s.err != nil {
		return false
	}
	if s.end == len(s.buf) {
		to := s.buf
		if s.pos < len(s.buf)/2 {
			to = make([]byte, 2*len(s.buf))
		}
		s.end = copy(to, s.buf[s.pos:s.end])
		s.buf, s.pos = to, 0
	}
	n, err := s.r.Read(s.buf[s.end:])
	s.end += n
	s.err = err
	return n > 0 || err == nil
}

// at returns the byte i behind pos, and false at the end of the input.
func (s *scanner) at(i int) (byte, bool) {
	for s.pos+i >= s.end {
		if !s.fill() {
			return 0, false
		}
	}
	return s.buf[s.pos+i], true
}

// take returns the next n bytes, which are valid until the next call of next.
func (s *scanner) take(n int, reason string) document {
	d := document{s.buf[s.pos : s.pos+n], s.line, reason}
	s.pos += n
	s.line += bytes.Count(d.text, []byte{'\n'})
	return d
}

// next returns the next document. It returns io.EOF at the end.
func (s *scanner) next() (document, error) {
	for {
		c, ok := s.at(0)
		switch {
		case !ok && !errors.Is(s.err, io.EOF):
			return document{}, fmt.Errorf("read documents: %w", s.err)
		case !ok:
			return document{}, io.EOF
		case c == '{':
			return s.document()
		case c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == '[' || c == ']' || c == 0xef || c == 0xbb || c == 0xbf:
			s.take(1, "") // between documents, or a byte order mark
		default:
			n := 1
			for c, ok := s.at(n); ok && c != '\n' && n < maxDocument; c, ok = s.at(n) {
				n++
			}
			return s.take(n, "no document begins here"), nil
		}
	}
}

// document returns a document, which begins at pos. If it has no end, it ends before the
// next line that begins with a document: only the first brace of a document is at the
// beginning of a line.
func (s *scanner) document() (document, error) {
	depth, quoted, escaped := 0, false, false
	for n := 0; ; n++ {
		c, ok := s.at(n)
		switch {
		case !ok && !errors.Is(s.err, io.EOF):
			return document{}, fmt.Errorf("read documents: %w", s.err)
		case !ok, c == '{' && n > 0 && s.buf[s.pos+n-1] == '\n', c == '\n' && quoted:
			return s.take(n, "the document has no end"), nil
		case n > maxDocument:
			d := s.take(n, fmt.Sprintf("the document is longer than %d bytes", maxDocument))
			d.text = d.text[:1000]
			return d, nil
		case escaped:
			escaped = false
		case quoted:
			escaped, quoted = c == '\\', c != '"'
		case c == '"':
			quoted = true
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			if depth--; depth == 0 {
				return s.take(n+1, ""), nil
			}
		}
	}
}
