package influxhttp

import (
	"bufio"
	"fmt"
	"io"
	"unicode/utf16"
	"unicode/utf8"
)

// newJSON returns the form of an answer in JSON.
func newJSON(r io.Reader) *jsonForm { return &jsonForm{r: bufio.NewReaderSize(r, 64<<10)} }

// jsonForm reads JSON. The types of numbers are not in it.
type jsonForm struct {
	r     *bufio.Reader
	depth int
}

func (j *jsonForm) more() (bool, error) {
	if _, err := j.peek(); err == io.EOF {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, nil
}

func (j *jsonForm) value(v *value) error {
	c, err := j.peek()
	if err != nil {
		return err
	}
	switch {
	case c == '"':
		v.kind = text
		v.text, err = j.string(v.text)
		return err
	case c == '-' || c >= '0' && c <= '9':
		v.kind = number
		v.text, err = j.word(v.text)
		return err
	}
	if v.text, err = j.word(v.text); err != nil {
		return err
	}
	switch string(v.text) {
	case "null":
		v.kind = null
	case "true":
		v.kind, v.bits = boolean, 1
	case "false":
		v.kind = boolean
	default:
		return fmt.Errorf("%w: a row has the value %.50q", errForm, v.text)
	}
	v.text = v.text[:0]
	return nil
}

// peek returns the first byte of what comes, behind white space.
func (j *jsonForm) peek() (byte, error) {
	for {
		c, err := j.r.ReadByte()
		if err != nil {
			return 0, err
		}
		if c != ' ' && c != '\n' && c != '\r' && c != '\t' {
			return c, j.r.UnreadByte()
		}
	}
}

// expect reads one of two bytes and says whether it was the first.
func (j *jsonForm) expect(a, b byte) (bool, error) {
	c, err := j.peek()
	if err != nil {
		return false, err
	}
	if c != a && c != b {
		return false, fmt.Errorf("%w: %q where %q was expected", errForm, c, a)
	}
	_, err = j.r.ReadByte()
	return c == a, err
}

// maxDepth bounds how deep arrays and objects are nested.
const maxDepth = 20

func (j *jsonForm) nest() error {
	if j.depth++; j.depth > maxDepth {
		return fmt.Errorf("%w: it is nested too deeply", errForm)
	}
	return nil
}

func (j *jsonForm) object(member func(key string) error) error {
	return j.list('{', '}', func(int) error {
		key, err := j.string(nil)
		if err != nil {
			return err
		}
		if _, err := j.expect(':', ':'); err != nil {
			return err
		}
		return member(string(key))
	})
}

// array takes a null for an empty array.
func (j *jsonForm) array(element func(i int) error) error {
	if c, err := j.peek(); err != nil {
		return err
	} else if c == 'n' {
		return j.skip()
	}
	return j.list('[', ']', element)
}

func (j *jsonForm) list(open, end byte, element func(i int) error) error {
	if _, err := j.expect(open, open); err != nil {
		return err
	}
	if err := j.nest(); err != nil {
		return err
	}
	defer func() { j.depth-- }()
	if c, err := j.peek(); err != nil {
		return err
	} else if c == end {
		_, err = j.r.ReadByte()
		return err
	}
	for i := 0; ; i++ {
		if err := element(i); err != nil {
			return err
		}
		if more, err := j.expect(',', end); err != nil || !more {
			return err
		}
	}
}

func (j *jsonForm) skip() error {
	c, err := j.peek()
	switch {
	case err != nil:
		return err
	case c == '{':
		return j.object(func(string) error { return j.skip() })
	case c == '[':
		return j.list('[', ']', func(int) error { return j.skip() })
	case c == '"':
		_, err = j.string(nil)
	default:
		_, err = j.word(nil)
	}
	return err
}

// word appends a number or a literal to dst.
func (j *jsonForm) word(dst []byte) ([]byte, error) {
	for start := len(dst); ; {
		c, err := j.r.ReadByte()
		if err != nil {
			return dst, err
		}
		switch {
		case c == '-' || c == '+' || c == '.' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z':
			if len(dst)-start > 400 {
				return dst, fmt.Errorf("%w: a number without end", errForm)
			}
			dst = append(dst, c)
		case len(dst) == start:
			return dst, fmt.Errorf("%w: %q where a value was expected", errForm, c)
		default:
			return dst, j.r.UnreadByte()
		}
	}
}

func (j *jsonForm) string(dst []byte) ([]byte, error) {
	if _, err := j.expect('"', '"'); err != nil {
		return dst, err
	}
	for start := len(dst); ; {
		if _, err := j.r.Peek(1); err != nil {
			return dst, err
		}
		b, err := j.r.Peek(j.r.Buffered())
		if err != nil {
			return dst, err
		}
		n := 0
		for n < len(b) && b[n] != '"' && b[n] != '\\' {
			n++
		}
		if dst = append(dst, b[:n]...); len(dst)-start > maxText {
			return dst, fmt.Errorf("%w: a string of more than %d bytes", errForm, maxText)
		}
		end := n < len(b) && b[n] == '"'
		escape := n < len(b) && !end
		if end || escape {
			n++
		}
		if _, err := j.r.Discard(n); err != nil {
			return dst, err
		}
		if end {
			return dst, nil
		}
		if escape {
			if dst, err = j.escape(dst); err != nil {
				return dst, err
			}
		}
	}
}

// escapes are the bytes behind a backslash and what they mean.
var escapes = [256]byte{'"': '"', '\\': '\\', '/': '/', 'b': '\b', 'f': '\f', 'n': '\n', 'r': '\r', 't': '\t'}

// escape appends what follows a backslash.
func (j *jsonForm) escape(dst []byte) ([]byte, error) {
	c, err := j.r.ReadByte()
	if err != nil {
		return dst, err
	}
	if c != 'u' {
		if escapes[c] == 0 {
			return dst, fmt.Errorf("%w: \\%c in a string", errForm, c)
		}
		return append(dst, escapes[c]), nil
	}
	first, err := j.hex()
	if err != nil || !utf16.IsSurrogate(first) {
		return utf8.AppendRune(dst, first), err
	}
	if b, err := j.r.Peek(2); err != nil || string(b) != `\u` {
		return utf8.AppendRune(dst, utf8.RuneError), err
	}
	if _, err := j.r.Discard(2); err != nil {
		return dst, err
	}
	second, err := j.hex()
	return utf8.AppendRune(dst, utf16.DecodeRune(first, second)), err
}

// hex reads four hexadecimal digits.
func (j *jsonForm) hex() (rune, error) {
	var r rune
	for range 4 {
		c, err := j.r.ReadByte()
		if err != nil {
			return r, err
		}
		switch r <<= 4; {
		case c >= '0' && c <= '9':
			r |= rune(c - '0')
		case c|0x20 >= 'a' && c|0x20 <= 'f':
			r |= rune(c|0x20-'a') + 10
		default:
			return r, fmt.Errorf("%w: \\u without four digits in a string", errForm)
		}
	}
	return r, nil
}
