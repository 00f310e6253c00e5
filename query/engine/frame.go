package engine

import (
	"tsdbd/model"
	"tsdbd/model/column"
)

// frame is a run of rows of one output series of a level. The rows of a series
// come in consecutive frames, in the level's time order.
type frame struct {
	name  string
	tuple []string // values of Level.Dims
	times []int64
	cols  []column.Vector // as the level's columns without time; Unknown is all null
	// values is what cols lies in from place 1 on; it goes to the consumer. Nil
	// if somebody else has it.
	values []column.Vector
}

// chunkText bounds the bytes of strings in a chunk of the answer. A row with more
// makes a chunk by itself.
const chunkText = 4 << 20

// texts returns the end of the rows of f from lo on that a chunk takes which has
// text bytes of strings, hi at most, and the bytes of their strings.
func (f *frame) texts(lo, hi int, text int64) (end int, bytes int64) {
	var columns []*column.Vector
	for i := range f.cols {
		if f.cols[i].Type == model.String {
			columns = append(columns, &f.cols[i])
		}
	}
	if len(columns) == 0 {
		return hi, 0
	}
	for end = lo; end < hi; end++ {
		n := int64(0)
		for _, v := range columns {
			n += int64(len(v.Strings[end]))
		}
		if end > lo && text+bytes+n > chunkText {
			break
		}
		bytes += n
	}
	return end, bytes
}
