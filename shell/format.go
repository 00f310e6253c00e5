package shell

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// columns writes tables with aligned columns. The widths are those of the first part
// of a table; longer values of later parts stand out.
type columns struct {
	out      io.Writer
	boxed    bool // lines around the columns
	vertical bool // a line for each value of a row
	width    int  // of the terminal; 0: unknown
	limit    int  // rows of a statement; 0: none

	last    string
	widths  []int
	upright bool // the table is vertical
	rows    int  // of the table
	shown   int  // of the statement
	cut     bool // the statement has more
	any     bool
}

// maxRows bounds what a terminal shows of a statement.
const maxRows = 10_000

// errCut is the error of rows beyond the limit.
var errCut = errors.New("there are too many rows")

func (c *columns) series(s *series) error {
	var b bytes.Buffer
	if room := c.limit - c.shown; c.limit > 0 && len(s.Values) > room {
		few := *s
		few.Values, s, c.cut = s.Values[:room], &few, true
		if room == 0 {
			return errCut
		}
	}
	c.shown += len(s.Values)
	cells := make([][]string, len(s.Values))
	for i, row := range s.Values {
		cells[i] = make([]string, len(row))
		for k, v := range row {
			cells[i][k] = cell(v)
		}
	}
	if key := s.key(); key != c.last {
		c.finish(&b)
		c.last, c.rows = key, 0
		c.head(&b, s, cells)
	}
	for i, row := range cells {
		if c.upright {
			c.block(&b, s, c.rows+i+1, row)
			continue
		}
		for k, text := range row {
			_, number := s.Values[i][k].(json.Number)
			c.cell(&b, k, text, number && c.boxed, k == len(row)-1)
		}
		b.WriteByte('\n')
	}
	c.rows += len(cells)
	_, err := c.out.Write(b.Bytes())
	if c.cut && err == nil {
		err = errCut
	}
	return err
}

// block writes a row of a vertical table.
func (c *columns) block(b *bytes.Buffer, s *series, number int, row []string) {
	longest := 0
	for _, name := range s.Columns {
		longest = max(longest, utf8.RuneCountInString(name))
	}
	fmt.Fprintf(b, "-[ %d ]%s\n", number, strings.Repeat("-", max(0, longest-len(strconv.Itoa(number)))))
	for i, text := range row {
		name := printable(s.Columns[i])
		b.WriteString(strings.TrimRight(name+strings.Repeat(" ", max(0, longest-utf8.RuneCountInString(name)))+" | "+text, " ") + "\n")
	}
}

// head writes the title and the names of the columns of a table.
func (c *columns) head(b *bytes.Buffer, s *series, cells [][]string) {
	if c.any {
		b.WriteByte('\n')
	}
	c.any = true
	c.widths = make([]int, len(s.Columns))
	for i, name := range s.Columns {
		c.widths[i] = utf8.RuneCountInString(name)
		for _, row := range cells {
			if i < len(row) {
				c.widths[i] = min(max(c.widths[i], utf8.RuneCountInString(row[i])), maxWidth)
			}
		}
	}
	if s.Name != "" {
		fmt.Fprintf(b, "name: %s\n", printable(s.Name))
	}
	if tags := s.tagText(); tags != "" {
		fmt.Fprintf(b, "tags: %s\n", printable(tags))
	}
	// Rows without a time are few, and about one thing each.
	total := 3 * (len(c.widths) - 1)
	for _, w := range c.widths {
		total += w
	}
	c.upright = c.vertical || c.boxed && c.width > 0 && total > c.width && s.timeColumn() < 0
	if c.upright {
		return
	}
	for i, name := range s.Columns {
		c.cell(b, i, printable(name), false, i == len(s.Columns)-1)
	}
	b.WriteByte('\n')
	for i, name := range s.Columns {
		if i > 0 {
			b.WriteString(map[bool]string{true: "-+-", false: " "}[c.boxed])
		}
		width := utf8.RuneCountInString(name)
		if c.boxed {
			width = c.widths[i]
		}
		b.WriteString(strings.Repeat("-", width))
		if !c.boxed && i < len(s.Columns)-1 {
			b.WriteString(strings.Repeat(" ", c.widths[i]-width))
		}
	}
	b.WriteByte('\n')
}

// maxWidth bounds the width that a column gets for its values.
const maxWidth = 60

func (c *columns) cell(b *bytes.Buffer, i int, text string, right, last bool) {
	if i > 0 {
		b.WriteString(map[bool]string{true: " | ", false: " "}[c.boxed])
	}
	pad := ""
	if i < len(c.widths) {
		pad = strings.Repeat(" ", max(0, c.widths[i]-utf8.RuneCountInString(text)))
	}
	switch {
	case right:
		b.WriteString(pad + text)
	case last:
		b.WriteString(text)
	default:
		b.WriteString(text + pad)
	}
}

// finish writes the number of rows of the last table.
func (c *columns) finish(b *bytes.Buffer) {
	if c.last == "" || !c.boxed && !c.vertical {
		return
	}
	if c.rows == 1 {
		b.WriteString("(1 row)\n")
	} else {
		fmt.Fprintf(b, "(%d rows)\n", c.rows)
	}
}

func (c *columns) end() error {
	var b bytes.Buffer
	c.finish(&b)
	if c.cut {
		fmt.Fprintf(&b, "cut: a terminal shows the first %d rows of a statement. -out FILE and a pipe have all of them\n", c.limit)
	}
	c.last, c.shown, c.cut = "", 0, false
	_, err := c.out.Write(b.Bytes())
	return err
}

// csvWriter writes tables as InfluxDB's CSV does, with one header for tables of the same
// columns that follow each other.
type csvWriter struct {
	out    *csv.Writer
	header []string
}

func (c *csvWriter) series(s *series) error {
	header := append([]string{"name", "tags"}, s.Columns...)
	if !slices.Equal(header, c.header) {
		c.header = header
		if err := c.out.Write(header); err != nil {
			return err
		}
	}
	for _, row := range s.Values {
		cells := []string{s.Name, strings.ReplaceAll(s.tagText(), ", ", ",")}
		for _, v := range row {
			text, ok := v.(string)
			if !ok {
				text = cell(v)
			}
			cells = append(cells, text)
		}
		if err := c.out.Write(cells); err != nil {
			return err
		}
	}
	return nil
}

func (c *csvWriter) end() error {
	c.out.Flush()
	return c.out.Error()
}

// cell returns a value as text.
func cell(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return printable(v)
	case json.Number:
		return v.String()
	case bool:
		return strconv.FormatBool(v)
	}
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Sprint(v)
	}
	return string(b)
}

// printable replaces what would change the terminal or break a line.
func printable(s string) string {
	if strings.IndexFunc(s, control) < 0 {
		return s
	}
	return strings.Map(func(r rune) rune {
		if control(r) {
			return '\uFFFD'
		}
		return r
	}, strings.NewReplacer("\n", `\n`, "\t", `\t`, "\r", `\r`).Replace(s))
}

func control(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 }
