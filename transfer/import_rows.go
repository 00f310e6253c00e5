package transfer

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"tsdbd/transfer/source/csv"
	"tsdbd/transfer/source/mongo"
)

// tableRow is where a line of a batch comes from: a row of a table, or a document.
type tableRow struct {
	line int
	head []byte
	row  []byte // nil unless refused rows are kept
}

// rowReader is a reader of rows of CSV, or of documents.
type rowReader interface {
	// Next appends the line of the next row to dst. It returns a *csv.RowError for a row
	// that does not become a line, and io.EOF at the end.
	Next(dst []byte) ([]byte, error)
	Line() int    // of the latest row
	Row() []byte  // valid until the next call of Next
	Head() []byte // what a file needs in front of the latest row
	Place() (database, policy string)
}

// rows returns the reader of the rows of r.
func (im *importer) rows(r io.Reader) (rowReader, error) {
	if im.opt.Mongo != nil {
		return mongo.NewReader(r, *im.opt.Mongo)
	}
	opt := *im.opt.CSV
	opt.Statement = im.statement
	return csv.NewReader(r, opt)
}

// readRows reads rows in place of lines.
func (im *importer) readRows(r io.Reader) error {
	d, err := im.rows(r)
	if err != nil {
		return err
	}
	db, rp := im.db, im.rp
	for {
		b := &im.batch
		body, err := d.Next(b.body)
		if named, policy := d.Place(); named != "" {
			db, rp = named, policy
		}
		var refused *csv.RowError
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.As(err, &refused):
			im.refuseRow(&tableRow{refused.Line, d.Head(), refused.Row}, refused.Reason)
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", im.opt.Name, err)
		case db == "":
			return errors.New("no database: name one with -db")
		}
		if b.lines > 0 && (db != b.db || rp != b.rp) {
			line := bytes.Clone(body[len(b.body):])
			if err := im.hand(); err != nil {
				return err
			}
			body = line
		}
		b.db, b.rp = db, rp
		from := tableRow{line: d.Line(), head: d.Head()}
		if im.opt.Failed != nil {
			from.row = bytes.Clone(d.Row())
		}
		b.body = body
		b.lines++
		b.ends = append(b.ends, len(body))
		b.sources = append(b.sources, from)
		if len(body) >= im.opt.BatchBytes {
			if err := im.hand(); err != nil {
				return err
			}
		}
	}
}

// refuseRow counts a row that does not become a line.
func (im *importer) refuseRow(s *tableRow, reason string) {
	im.mu.Lock()
	defer im.mu.Unlock()
	im.stats.Lines++
	im.stats.Failed++
	im.stats.addError(fmt.Sprintf("%s:%d: %s", im.opt.Name, s.line, reason))
	im.keepRowLocked(s)
}

// keepRowLocked writes a row that was not stored for later, below the header of its
// table. An import that loses it ends.
func (im *importer) keepRowLocked(s *tableRow) {
	if im.opt.Failed == nil {
		return
	}
	var text []byte
	if !bytes.Equal(s.head, im.keptHead) {
		im.keptHead = s.head
		text = append(text, s.head...)
	}
	if _, err := im.opt.Failed.Write(append(append(text, s.row...), '\n')); err != nil {
		im.cancel(fmt.Errorf("write failed rows: %w", err))
	}
}
