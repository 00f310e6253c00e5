package dictionary

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/script"
)

// TestScripts runs the stories of testdata: how values and their ids lie in pages, how
// they are found, and what damage of them leaves. -rewrite writes the answers.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		s := &story{t: t, m: &memory{}}
		return s.run
	})
}

// story is a file with one tag.
type story struct {
	t   *testing.T
	m   *memory
	tag *Tag
}

func (s *story) number(text string) int {
	n, err := strconv.Atoi(text)
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}

func (s *story) run(c script.Command) (lines []string) {
	switch c.Name {
	case "write": // values, each with its ids: 1, 1-5, 1-99/7 in steps of 7
		var entries []entry
		for _, line := range c.Input {
			words := strings.Fields(line)
			e := entry{value: words[0]}
			for _, w := range words[1:] {
				e.ids = append(e.ids, s.ids(w)...)
			}
			entries = append(entries, e)
		}
		return s.write(entries)
	case "write-many": // prefix n: prefix00000, prefix00001 and so on
		var entries []entry
		for i := range s.number(c.Args[1]) {
			entries = append(entries, entry{fmt.Sprintf("%s%05d", c.Args[0], i), []uint32{uint32(i) + 1}})
		}
		return s.write(entries)
	case "walk":
		return s.walk(s.tag.Cursor(s.m), 1<<20)
	case "seek": // n values from a value on
		cursor := s.tag.Cursor(s.m)
		cursor.Seek(strings.Join(c.Args[1:], " "))
		return s.walk(cursor, s.number(c.Args[0]))
	case "find":
		for _, v := range c.Args {
			p, ok, err := s.tag.Find(s.m, v)
			switch {
			case err != nil:
				lines = append(lines, v+": "+damage(err))
			case !ok:
				lines = append(lines, v+": not there")
			default:
				n, err := p.Count()
				lines = append(lines, fmt.Sprintf("%s: %d ids%s", v, n, damage(err)))
			}
		}
	case "before": // the value behind which there are n values or a few more
		return []string{strconv.Quote(s.tag.Before(s.number(c.Args[0])))}
	case "flip": // a byte of a page: page, offset
		s.m.data[s.tag.pages[s.number(c.Args[0])].offset+int64(s.number(c.Args[1]))] ^= 0xff
	default:
		s.t.Fatalf("no command %s", c.Name)
	}
	return lines
}

func (s *story) ids(word string) []uint32 {
	word, step, stepped := strings.Cut(word, "/")
	first, last, ranged := strings.Cut(word, "-")
	if !ranged {
		last = first
	}
	by := 1
	if stepped {
		by = s.number(step)
	}
	from := s.number(first)
	return every(uint32(from), uint32((s.number(last)-from)/by+1), uint32(by))
}

func (s *story) write(entries []entry) (lines []string) {
	s.tag = write(s.t, s.m, NewWriter(s.m.write), entries, roaring.New())
	for _, p := range s.tag.pages {
		lines = append(lines, fmt.Sprintf("page of %d values from %s", p.n, p.bound))
	}
	return append(lines, fmt.Sprintf("%d series", s.tag.Present.GetCardinality()))
}

// walk prints the next values: how many bytes each shares, and its posting.
func (s *story) walk(c *Cursor, n int) (lines []string) {
	for ; n > 0 && c.Next(); n-- {
		ids, err := c.Posting.IDs(nil)
		kind := [...]string{"single", "list", "bitmap", "elsewhere"}[c.Posting.kind]
		first := uint32(0)
		if len(ids) > 0 {
			first = ids[0]
		}
		lines = append(lines, fmt.Sprintf("%-10s shares %d, %s of %d from %d%s", c.Value, c.Shared, kind, len(ids), first, damage(err)))
	}
	if c.Err() != nil {
		lines = append(lines, damage(c.Err()))
	}
	return lines
}

// damage is what a reader of the log learns of err.
func damage(err error) string {
	var c *binio.CorruptError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &c):
		return fmt.Sprintf("damaged at %d of %s: %s", c.Offset, c.Path, c.Reason)
	}
	return err.Error()
}
