package scan

import (
	"context"
	"encoding/binary"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Storage is the read side of a store.
type Storage interface {
	// View references the shards of a retention policy that overlap r. The
	// caller must Release it. Unknown names give an error that is
	// meta.ErrDatabaseNotFound or meta.ErrRetentionPolicyNotFound. If damage has
	// taken something from r, the error is a *DamageError.
	View(db, rp string, r model.TimeRange) (View, error)
	// Partial returns the storage whose views have what damage has left. Their
	// Losses say what is missing.
	Partial() Storage
}

// View is a referenced set of shards of one database and retention policy.
type View interface {
	// Shards are sorted by time range; the ranges do not overlap.
	Shards() []Shard
	// SeriesKey returns the canonical key of a series.
	SeriesKey(id model.SeriesID) (string, error)
	// Losses returns what the shards have lost to damage.
	Losses() []Loss
	// Release gives the references back. No shard or cursor of the view may
	// be used after it.
	Release()
}

// Shard is one time range of a retention policy as of one moment.
type Shard interface {
	ID() uint64
	// TimeRange is the range the shard may hold, not the range it does hold.
	TimeRange() model.TimeRange
	// Measurements returns the names of measurements with series, sorted. The slice must
	// not be changed.
	Measurements() []string
	// TextMeasurements returns those that have only string fields.
	TextMeasurements() []string
	// MeasurementsWhere returns, sorted, measurements among which are all that have a
	// series that satisfies where; exact says that each of them has one. The slice must
	// not be changed.
	MeasurementsWhere(ctx context.Context, where *model.TagExpr) (names []string, exact bool, err error)
	// EachTagKey calls f with the tag keys that series of any measurement carry, without
	// those that only measurements in skip have, in any order and maybe more than once.
	// An error of f ends the walk.
	EachTagKey(ctx context.Context, skip []string, f func(key string) error) error
	// EachTagValue is EachTagKey of the values of a tag key. A value is f's until f returns.
	EachTagValue(ctx context.Context, key string, skip []string, f func(value string) error) error
	// Fields returns a measurement's fields sorted by key; nil if there are none.
	Fields(measurement string) []column.Field
	// TagKeys returns the tag keys that series of a measurement carry, sorted.
	TagKeys(measurement string) ([]string, error)
	// Select returns the series of a measurement that satisfy where. The
	// caller owns the set. The context's end stops it with the context's error.
	Select(ctx context.Context, measurement string, where *model.TagExpr) (*roaring.Bitmap, error)
	// TagValues returns the sorted non-empty values of a tag key among the
	// series in set (nil: all series of the measurement).
	TagValues(measurement, key string, set *roaring.Bitmap) ([]string, error)
	// FirstTagValues returns the first limit values of TagValues.
	FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error)
	// LastTagValues returns the last limit values of TagValues, sorted.
	LastTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error)
	// TagValueCount returns the number of values of TagValues for all series.
	TagValueCount(measurement, key string) (int, error)
	// CountByTagValue calls f with each value, ascending, and the number of
	// series of set that have it, until f returns false. f must not keep value.
	CountByTagValue(measurement, key string, set *roaring.Bitmap, f func(value []byte, series int) bool) error
	// AllSeries returns the series of all measurements. The caller owns the set.
	AllSeries() *roaring.Bitmap
	// GroupBy assigns every series of set to the group of its values of keys.
	GroupBy(measurement string, set *roaring.Bitmap, keys []string) (*Groups, error)
	// Scan opens a cursor. The context's end stops it with the context's error.
	Scan(ctx context.Context, req Request) (Cursor, error)
	// TimeBounds returns the smallest range known to hold all rows of the
	// series in set (nil: of the whole shard), from statistics alone, and
	// false if there are none. Deleted rows may widen it.
	TimeBounds(set *roaring.Bitmap) (model.TimeRange, bool)
	// Cost returns what a cursor over req would touch, without reading it.
	Cost(req Request) (Cost, error)
	// Charged returns the shard with TagValues, FirstTagValues, LastTagValues,
	// MeasurementsWhere, and GroupBy that call charge before they take memory for texts, and
	// end with its error.
	Charged(charge func(bytes int64) error) Shard
}

// Request says what a cursor reads.
type Request struct {
	Measurement string
	// Series to read; ids without data are passed over.
	Series *roaring.Bitmap
	// Fields are the columns of the chunks, in this order. The type is the one
	// the shard has registered. Rows that have none of the fields are not
	// part of the result. Empty Fields: no rows.
	Fields []string
	// Range bounds the times of the rows. A chunk that straddles a bound is
	// cut, and then has no statistics.
	Range model.TimeRange
	// Charge, if it is set, is called before the cursor takes memory for the
	// texts of string values, with their bytes, and with a negative number when
	// it lets go of them: before the next chunk and by Close. Its error ends the
	// walk. A charge that is refused counts all the same: the cursor gives it back.
	// Texts that lie in memory anyway are not charged.
	Charge func(bytes int64) error
	// Hold, if it is set, is called before the cursor takes memory to merge the rows of
	// very many series that have become one, with its bytes, and with a negative number
	// by Close. Its error ends the walk. A charge that is refused counts all the same.
	Hold func(bytes int64) error
	// Descending yields the chunks of each series newest first. Rows inside a
	// chunk are always ascending.
	Descending bool
}

// Cursor walks the series of a Request in an order of storage's choice.
type Cursor interface {
	// NextSeries moves to the next series with at least one chunk. It returns
	// false at the end or on error.
	NextSeries() (model.SeriesID, bool)
	// NextChunk moves to the series' next chunk, or returns nil at its end or
	// on error. Chunks of one series do not overlap in time and every time
	// occurs once: duplicates are merged, newest value per field. The chunk is
	// valid until the next call of NextChunk or NextSeries.
	NextChunk() Chunk
	// Again begins to walk the series of another request of the shard, with the memory of
	// the walk before. Only its Measurement, Series, and Fields count.
	Again(req Request)
	// Narrow makes Request.Range smaller for the series that follow. The cursor
	// may or may not apply the range to the current series.
	Narrow(r model.TimeRange)
	// Err returns the error that ended the walk, if any.
	Err() error
	// Close ends the cursor. What its chunks have handed out is not valid any more.
	Close()
}

// Chunk is a run of rows of one series. Slices and vectors it returns are
// read-only; they, but not the bytes of string values, die with the chunk
// unless copied. String values stay valid.
type Chunk interface {
	Len() int
	// Min and Max are the times of the first and the last row.
	Min() int64
	Max() int64
	// Step is the distance of the timestamps if they are regular (then row i
	// is at Min+i*Step and Times need not be asked for), else 0. A chunk of
	// one row has Step 0.
	Step() int64
	// Times returns the timestamps, strictly ascending.
	Times() ([]int64, error)
	// Column returns column i of Request.Fields, Len rows. A field the series
	// does not have gives a vector with no valid row.
	Column(i int) (*column.Vector, error)
	// Stats sets st to the statistics of column i, or returns false if there are
	// none and the column must be decoded; st then holds nothing of use.
	Stats(i int, st *Stats) bool
	// Sum is Stats for callers that need only Count, Sum, and SumError, and of
	// integers Min and Max.
	Sum(i int, st *Stats) bool
	// Count returns the number of non-null values of column i, and false if the
	// column must be decoded to count them.
	Count(i int) (int, bool)
	// MayHaveNaN reports whether a value of column i may be NaN. It returns false for
	// columns of other types than float. A column of a file is decoded only if it has
	// no statistics.
	MayHaveNaN(i int) bool
	// TextBytes estimates the bytes of the texts of column i without decoding
	// them. It returns 0 for columns of other types.
	TextBytes(i int) int64
}

// Stats sums up the non-null values of one column of a chunk. Value words are
// the bits of a float64, an int64, a uint64, or 0 and 1. For strings only the
// counts are set. NaN takes no part in Min and Max unless all values are NaN.
type Stats struct {
	Count             int // non-null values; 0 means that nothing else is set
	Min, Max          uint64
	First, Last       uint64
	FirstRow, LastRow int     // rows of First and Last
	Sum               uint64  // integers wrap; floats: the rounded sum, NaN if a value is NaN
	SumError          float64 // floats: what Sum lost, so that Sum+SumError is exact to about 106 bits
}

// Groups maps series to groups. Group numbers are 0..len(Tuples)-1.
type Groups struct {
	// Tuples holds for each group the values of the keys; "" where absent.
	// They are sorted.
	Tuples [][]string
	base   uint32
	dense  []uint32
	sparse map[uint32]uint32
}

// NewGroups returns the mapping of ids[i] to group[i]. The ids are ascending.
func NewGroups(tuples [][]string, ids, group []uint32) *Groups {
	g := &Groups{Tuples: tuples}
	if len(ids) == 0 || len(tuples) <= 1 {
		return g
	}
	g.base = ids[0]
	if span := uint64(ids[len(ids)-1]-ids[0]) + 1; span <= 16*uint64(len(ids)) {
		g.dense = make([]uint32, span)
		for i, id := range ids {
			g.dense[id-g.base] = group[i]
		}
		return g
	}
	g.sparse = make(map[uint32]uint32, len(ids))
	for i, id := range ids {
		g.sparse[id] = group[i]
	}
	return g
}

// Of returns the group of a series that was in the set.
func (g *Groups) Of(id model.SeriesID) int {
	if g.dense != nil {
		return int(g.dense[uint32(id)-g.base])
	}
	if g.sparse != nil {
		return int(g.sparse[uint32(id)])
	}
	return 0
}

// DeleteRequest says which rows a delete removes: those of the selected series
// with times in Range, all fields of them. A series that is left without rows
// leaves the index, and a measurement that is left without series forgets its
// fields.
type DeleteRequest struct {
	Database        string
	RetentionPolicy string // "" is all policies of the database
	// Measurement selects measurements by name; nil is all.
	Measurement func(name string) bool
	// Where gives the predicate over the series of a measurement with these
	// fields (it depends on them whether a name is a tag); nil is all series.
	// It is called for each shard and may refuse; the delete then changes
	// nothing, and its error begins with "shard N: ".
	Where func(measurement string, fields []column.Field) (*model.TagExpr, error)
	Range model.TimeRange
}

// MoveRequest says which series get other names: those of the measurement of Change that
// Where selects, in all policies of the database. A rename of a field concerns all series
// of the measurement.
type MoveRequest struct {
	Database string
	Change   model.Change
	Where    func(measurement string, fields []column.Field) (*model.TagExpr, error) // as in DeleteRequest
}

// Moved is what a move has done.
type Moved struct {
	Series int // with another name, or with a field of another name
	Merged int // of them, those that share their name with another series
}

// GroupKey appends a key of a measurement and the values of a group to dst. No two
// groups have the same key: each part stands behind its length.
func GroupKey(dst []byte, name string, tuple []string) []byte {
	dst = append(binary.AppendUvarint(dst, uint64(len(name))), name...)
	for _, v := range tuple {
		dst = append(binary.AppendUvarint(dst, uint64(len(v))), v...)
	}
	return dst
}
