package column

import (
	"cmp"
	"slices"

	"tsdbd/model"
)

// Fold merges the rows of very many sources in bounded memory. The sources come one after
// another, the oldest first. Of equal times the value of the later source wins, field by
// field. A Fold that would hold too much keeps the first rows by time, or the last, and
// makes the range of times narrower in which it has all rows:
//
//	f.Reset(types, times, false)
//	for each source {
//		append the rows of the source within f.Times() to f.Added()
//		f.Settle()
//	}
//	rows := f.Finish() // all rows within f.Times()
//
// What f.Times() leaves out of times takes another pass over the sources.
type Fold struct {
	MaxCells int // most rows times columns that are kept, the times are a column too
	MaxText  int // most bytes of strings that are kept, except in one row

	last  bool // the last rows are kept
	times model.TimeRange
	types []model.FieldType
	most  int   // rows that are kept
	rows  Rows  // kept rows, ascending, and then those that were added
	kept  int   // number of kept rows
	seen  int   // rows whose text is counted
	text  int   // bytes of strings in rows
	held  int   // of them, in kept rows
	spare Rows  // memory of the next kept rows
	order []row // of rows, by time
}

// row is a row with its time.
type row struct {
	time int64
	at   int32
}

const rowBytes = 16

// Reset empties f. With last, f keeps the last rows.
func (f *Fold) Reset(types []model.FieldType, times model.TimeRange, last bool) {
	f.types, f.times, f.last = types, times, last
	f.most = max(f.MaxCells/(1+len(types)), 1)
	f.clear(&f.rows)
	f.clear(&f.spare)
	f.kept, f.seen, f.text, f.held = 0, 0, 0, 0
}

// clear empties rows and lets go of their texts.
func (f *Fold) clear(rows *Rows) {
	for i := range rows.Cols {
		clear(rows.Cols[i].Strings)
	}
	rows.Reset(f.types)
}

// Times returns the range within which f has all rows of the sources so far. Other rows
// need not be added.
func (f *Fold) Times() model.TimeRange { return f.times }

// Added returns the rows to which those of the next source are to be appended.
func (f *Fold) Added() *Rows { return &f.rows }

// Bytes returns about the memory that f takes after so many more rows, without texts.
func (f *Fold) Bytes(more int) int64 {
	perRow := int64(8)
	for _, t := range f.types {
		if perRow += 8; t == model.String {
			perRow += 8
		}
	}
	n := int64(f.rows.Len() + more)
	return n*(perRow+rowBytes) + min(n, int64(f.most))*perRow
}

// Settle is called after the rows of each source.
func (f *Fold) Settle() {
	for i := range f.rows.Cols {
		if f.rows.Cols[i].Type == model.String {
			for _, s := range f.rows.Cols[i].Strings[f.seen:] {
				f.text += len(s)
			}
		}
	}
	f.seen = f.rows.Len()
	if f.rows.Len()-f.kept >= f.most || f.text-f.held >= f.MaxText {
		f.fold()
	}
}

// Finish returns all rows within f.Times(), which are valid until the next Reset.
func (f *Fold) Finish() *Rows {
	if f.rows.Len() > f.kept {
		f.fold()
	}
	return &f.rows
}

// fold merges what was added with the kept rows, and drops what is too much.
func (f *Fold) fold() {
	f.order = f.order[:0]
	for i, t := range f.rows.Times {
		if f.times.Contains(t) {
			f.order = append(f.order, row{t, int32(i)})
		}
	}
	byTime := func(a, b row) int { return cmp.Or(cmp.Compare(a.time, b.time), cmp.Compare(a.at, b.at)) }
	if !slices.IsSortedFunc(f.order, byTime) {
		slices.SortFunc(f.order, byTime)
	}
	order := f.cut()
	f.clear(&f.spare)
	for lo := 0; lo < len(order); {
		hi := f.group(order, lo)
		if hi-lo > 1 {
			f.merge(order[lo:hi])
			lo = hi
			continue
		}
		// Neighbors that are alone at their times are copied together.
		for hi < len(order) && order[hi].at == order[hi-1].at+1 && f.group(order, hi) == hi+1 {
			hi++
		}
		f.spare.AppendRange(&f.rows, int(order[lo].at), int(order[hi-1].at)+1)
		lo = hi
	}
	f.rows, f.spare = f.spare, f.rows
	f.clear(&f.spare)
	f.kept, f.seen, f.text = f.rows.Len(), f.rows.Len(), f.held
}

// group returns the end of the rows of one time that begin at lo.
func (f *Fold) group(order []row, lo int) int {
	hi := lo + 1
	for hi < len(order) && order[hi].time == order[lo].time {
		hi++
	}
	return hi
}

// cut returns the part of the order that is kept. It sets the bytes of its texts.
func (f *Fold) cut() []row {
	order, rows := f.order, 0
	f.held = 0
	fits := func(group []row) bool {
		text := f.textOf(group)
		if rows > 0 && (rows == f.most || f.held+text > f.MaxText) {
			return false
		}
		f.held += text
		rows++
		return true
	}
	if f.last {
		for hi := len(order); hi > 0; {
			lo := hi - 1
			for lo > 0 && order[lo-1].time == order[lo].time {
				lo--
			}
			if !fits(order[lo:hi]) {
				f.times.Min = order[hi].time
				return order[hi:]
			}
			hi = lo
		}
		return order
	}
	for lo := 0; lo < len(order); {
		hi := f.group(order, lo)
		if !fits(order[lo:hi]) {
			f.times.Max = order[lo-1].time
			return order[:lo]
		}
		lo = hi
	}
	return order
}

// textOf returns the bytes of the texts of the row that a group becomes.
func (f *Fold) textOf(group []row) (n int) {
	for c := range f.rows.Cols {
		if v := &f.rows.Cols[c]; v.Type == model.String {
			if i := newest(v, group); i >= 0 {
				n += len(v.Strings[i])
			}
		}
	}
	return n
}

// newest returns the last row of a group that has a value in a column, -1 if none has.
func newest(v *Vector, group []row) int {
	for _, r := range slices.Backward(group) {
		if v.IsValid(int(r.at)) {
			return int(r.at)
		}
	}
	return -1
}

// merge appends the row that a group becomes.
func (f *Fold) merge(group []row) {
	f.spare.Times = append(f.spare.Times, group[0].time)
	for c := range f.rows.Cols {
		if i := newest(&f.rows.Cols[c], group); i >= 0 {
			f.spare.Cols[c].AppendFrom(&f.rows.Cols[c], i)
		} else {
			f.spare.Cols[c].AppendNull()
		}
	}
}
