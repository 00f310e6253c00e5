package tsm

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

const (
	// ChunkRows is the number of rows of a full chunk.
	ChunkRows = 1024
	// ChunkText is how many bytes of strings a chunk takes. A row that has more
	// is a chunk alone.
	ChunkText = 4 << 20
	// MaxCells bounds rows times fields of a chunk: a series may have very many
	// fields, and each of its rows few of them.
	MaxCells = 1 << 22
)

// FullChunk returns the number of rows of a full chunk of so many fields.
func FullChunk(fields int) int { return max(min(ChunkRows, MaxCells/max(fields, 1)), 1) }

// CutChunk returns the end of the chunk that begins with row lo, and the bytes
// of its strings.
func CutChunk(rows *column.Rows, lo int) (hi, text int) {
	hi = min(lo+FullChunk(len(rows.Cols)), rows.Len())
	strings := false
	for c := range rows.Cols {
		strings = strings || rows.Cols[c].Type == model.String
	}
	if !strings {
		return hi, 0
	}
	for i := lo; i < hi; i++ {
		n := rowText(rows, i)
		if i > lo && text+n > ChunkText {
			return i, text
		}
		text += n
	}
	return hi, text
}

// rowText returns the bytes of a row's strings.
func rowText(rows *column.Rows, i int) int {
	n := 0
	for c := range rows.Cols {
		if v := &rows.Cols[c]; v.Type == model.String && v.IsValid(i) {
			n += len(v.Strings[i])
		}
	}
	return n
}

// TextBytes returns the bytes of the strings of rows from row lo on.
func TextBytes(rows *column.Rows, lo int) int {
	n := 0
	for c := range rows.Cols {
		if v := &rows.Cols[c]; v.Type == model.String {
			for i := lo; i < rows.Len(); i++ {
				if v.IsValid(i) {
					n += len(v.Strings[i])
				}
			}
		}
	}
	return n
}
