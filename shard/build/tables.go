package build

import (
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

// tables writes the rows to TSM files. Its goroutine sees the batches last.
type tables struct {
	opt   *Options
	w     *tsm.Writer // nil before the first series of a file
	name  string      // of the file of w
	files Files

	types []model.FieldType // of the present series
	buf   column.Rows       // its rows that are not written
	spare column.Rows
	text  int // bytes of strings in buf
	cols  []column.Vector
}

// take writes the rows of a batch.
func (t *tables) take(p *batch) error {
	run := 0
	for i := range p.series {
		s := &p.series[i]
		runs := p.runs[run : run+s.runs]
		run += s.runs
		if s.begins {
			if err := t.begin(s); err != nil {
				return err
			}
		}
		if s.begins && s.ends && len(runs) == 1 {
			if _, _, err := t.write(&runs[0], 1, 0); err != nil {
				return err
			}
			continue
		}
		for k := range runs {
			if err := t.append(&runs[k]); err != nil {
				return err
			}
		}
	}
	return nil
}

// begin begins a series, and a file if there is none.
func (t *tables) begin(s *part) (err error) {
	if err := t.end(); err != nil {
		return err
	}
	if t.w == nil {
		t.name = manifest.TSMName(t.opt.Number())
		t.w, err = tsm.Create(t.opt.FS, t.opt.Dir+"/"+t.name, tsm.WriterOptions{MinSequence: t.opt.Sequence, MaxSequence: t.opt.Sequence, Level: t.opt.Level, Dense: true})
		if err != nil {
			return err
		}
	}
	if err := t.w.Series(s.id, s.key, s.fields); err != nil {
		return err
	}
	t.types = s.types
	t.buf.Reset(s.types)
	return nil
}

// append adds rows of the present series.
func (t *tables) append(rows *column.Rows) error {
	at := t.buf.Len()
	t.buf.AppendRange(rows, 0, rows.Len())
	full := tsm.FullChunk(len(rows.Cols))
	if t.text += tsm.TextBytes(&t.buf, at); t.text >= tsm.ChunkText || t.buf.Len() >= full {
		return t.emit(full)
	}
	return nil
}

// emit writes buffered rows as chunks, as long as there are at least so many, or too much
// text.
func (t *tables) emit(least int) error {
	at, text, err := t.write(&t.buf, least, t.text)
	if err != nil || at == 0 {
		return err
	}
	t.text = text
	t.spare.Reset(t.types)
	t.spare.AppendRange(&t.buf, at, t.buf.Len())
	t.buf, t.spare = t.spare, t.buf
	return nil
}

// write writes rows as chunks, as long as there are at least so many or too much text. It
// returns the first row that it has not written, and the bytes of text from there on.
func (t *tables) write(rows *column.Rows, least, text int) (at, left int, err error) {
	for n := rows.Len(); n-at >= least || at < n && text >= tsm.ChunkText; {
		end, size := tsm.CutChunk(rows, at)
		part := rows.Slice(at, end, t.cols)
		t.cols = part.Cols
		if err := t.w.Append(part.Times, part.Cols); err != nil {
			return at, text, err
		}
		text -= size
		at = end
	}
	return at, text, nil
}

// end ends the present series, and the file if that is large enough.
func (t *tables) end() error {
	if t.w == nil {
		return nil
	}
	if err := t.emit(1); err != nil {
		return err
	}
	t.text = 0
	if t.w.Size() >= t.opt.MaxFile {
		return t.endFile()
	}
	return nil
}

// endFile finishes the present file.
func (t *tables) endFile() error {
	if t.w == nil {
		return nil
	}
	info, err := t.w.Finish()
	if err != nil {
		return err
	}
	t.w = nil
	t.files.TSM = append(t.files.TSM, manifest.File{Name: t.name, Size: info.Size, Checksum: info.Checksum, MinSequence: t.opt.Sequence, MaxSequence: t.opt.Sequence, Level: t.opt.Level})
	return nil
}

// finish ends the last series and the last file.
func (t *tables) finish() error {
	if err := t.end(); err != nil {
		return err
	}
	return t.endFile()
}
