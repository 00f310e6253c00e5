package parquet

import (
	"encoding/binary"
	"fmt"
	"io"

	"tsdbd/model"
	"tsdbd/model/column"
)

const magic = "PAR1"

// Column is a column of a table.
type Column struct {
	Name string
	Type model.FieldType // Unknown until a value comes; a column without any is one of floats
	Time bool            // integers that are times in nanoseconds, UTC
	// Required says that each row has a value.
	Required bool
}

// Options configure a Writer. The zero value works.
type Options struct {
	GroupRows  int   // of a row group at most; default 1,048,576
	GroupBytes int64 // of memory of a row group; default 64 MiB
	// Charge, if set, is called with the bytes of memory of the Writer as they change,
	// with some for the rows of the next call. Its error ends the Writer.
	Charge func(bytes int64) error
}

// Writer writes a file.
type Writer struct {
	w       io.Writer
	opt     Options
	columns []*chunk
	rows    int   // of the open group
	offset  int64 // bytes written
	groups  []group
	charged int64
	kept    int64 // bytes of what stays after a group is written
	err     error
	scratch scratch
}

// group is a row group that was written.
type group struct {
	rows    int
	columns []written
}

// written is what the footer has of a column in a group.
type written struct {
	encodings        uint32
	dictionary, data int64 // offsets; dictionary 0: none
	raw, size, nulls int64
	least, greatest  []byte
}

// writtenBytes is about the memory of a written with its bounds.
const writtenBytes = 256

// rowBytes are charged from the start, for rows that are added before the next charge.
const rowBytes = 256 << 10

// NewWriter returns a Writer to w. No two columns may have the same name.
func NewWriter(w io.Writer, opt Options, columns ...Column) *Writer {
	if opt.GroupRows <= 0 {
		opt.GroupRows = 1 << 20
	}
	if opt.GroupBytes <= 0 {
		opt.GroupBytes = 64 << 20
	}
	p := &Writer{w: w, opt: opt, kept: rowBytes}
	for _, c := range columns {
		p.AddColumn(c)
	}
	return p
}

// AddColumn adds a column and returns its number. Rows that were added before have no
// value in it.
func (w *Writer) AddColumn(c Column) int {
	if c.Required && (w.rows > 0 || len(w.groups) > 0) {
		panic("parquet: a required column behind rows")
	}
	w.columns = append(w.columns, &chunk{Column: c, scratch: &w.scratch})
	w.columns[len(w.columns)-1].addNulls(w.rows)
	return len(w.columns) - 1
}

// Type returns the type of a column.
func (w *Writer) Type(i int) model.FieldType { return w.columns[i].Type }

// SetType gives a column that has no value yet a type.
func (w *Writer) SetType(i int, t model.FieldType) { w.columns[i].Type = t }

// Times adds times to a column of integers.
func (w *Writer) Times(i int, times []int64) { w.columns[i].addTimes(times) }

// Text adds n rows with one text.
func (w *Writer) Text(i int, s string, n int) { w.columns[i].addText(s, n) }

// Nulls adds n rows without a value.
func (w *Writer) Nulls(i, n int) { w.columns[i].addNulls(n) }

// Vector adds the n rows of v, which has the type of the column or Unknown.
func (w *Writer) Vector(i int, v *column.Vector, n int) {
	c := w.columns[i]
	if v.Type == model.Unknown {
		c.addNulls(n)
		return
	}
	if v.Type != c.Type {
		panic(fmt.Sprintf("parquet: values of type %v in a column of type %v", v.Type, c.Type))
	}
	c.add(v, n)
}

// Rows ends n rows. Each column must have got n values or nulls since the last call. It
// writes the group when it is large enough.
func (w *Writer) Rows(n int) error {
	if w.err != nil {
		return w.err
	}
	w.rows += n
	size := int64(cap(w.scratch.body) + cap(w.scratch.packed))
	for _, c := range w.columns {
		if c.total+c.rows != w.rows {
			panic(fmt.Sprintf("parquet: column %q has %d rows of %d", c.Name, c.total+c.rows, w.rows))
		}
		size += c.size()
	}
	if w.err = w.charge(size); w.err != nil {
		return w.err
	}
	if w.rows >= w.opt.GroupRows || size >= w.opt.GroupBytes {
		return w.flush()
	}
	return nil
}

// charge tells opt.Charge that the open group has size bytes.
func (w *Writer) charge(size int64) error {
	if total := size + w.kept; w.opt.Charge != nil && total != w.charged {
		w.charged = total
		return w.opt.Charge(total)
	}
	return nil
}

func (w *Writer) write(b []byte) {
	if w.err == nil {
		_, w.err = w.w.Write(b)
		w.offset += int64(len(b))
	}
}

// flush writes the open group.
func (w *Writer) flush() error {
	if w.rows == 0 || w.err != nil {
		return w.err
	}
	w.begin()
	g := group{rows: w.rows}
	for _, c := range w.columns {
		g.columns = append(g.columns, w.chunk(c))
		w.kept += writtenBytes
		if size := c.size(); size > 2*w.opt.GroupBytes/int64(len(w.columns)) {
			// One column was much larger than its share. The next group may be another.
			*c = chunk{Column: c.Column, bytes: c.bytes, scratch: &w.scratch}
		} else {
			c.reset()
		}
	}
	w.groups = append(w.groups, g)
	w.rows = 0
	return w.err
}

// begin writes the beginning of the file.
func (w *Writer) begin() {
	if w.offset == 0 {
		w.write([]byte(magic))
	}
}

// chunk writes the pages of a column.
func (w *Writer) chunk(c *chunk) written {
	dictionary := c.finish()
	out := written{encodings: c.used, raw: c.raw, nulls: c.nulls, size: int64(len(dictionary) + len(c.pages))}
	out.least, out.greatest = c.bounds()
	if dictionary != nil {
		out.dictionary = w.offset
		w.write(dictionary)
	}
	out.data = w.offset
	w.write(c.pages)
	return out
}

// Close writes what is left, and the footer. It does not close the file. A Writer that
// is not closed has written a file that no reader accepts.
func (w *Writer) Close() error {
	if err := w.flush(); err != nil {
		return err
	}
	w.begin()
	for i := range w.groups {
		g := &w.groups[i]
		for _, c := range w.columns[len(g.columns):] {
			missing := &chunk{Column: c.Column, scratch: &w.scratch}
			missing.addNulls(g.rows)
			g.columns = append(g.columns, w.chunk(missing))
		}
	}
	footer := w.footer()
	w.write(footer)
	w.write(binary.LittleEndian.AppendUint32(nil, uint32(len(footer))))
	w.write([]byte(magic))
	return w.err
}
