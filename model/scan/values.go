package scan

import "github.com/RoaringBitmap/roaring/v2"

// SeriesIndex is what a Shard may implement beside Shard, to count series
// without going through the measurements.
type SeriesIndex interface {
	// AllSeries returns the series of all measurements. The caller owns the set.
	AllSeries() *roaring.Bitmap
}

// TagValueIndex is what a Shard may implement beside Shard, to spare
// statements about tag values those that they do not show.
type TagValueIndex interface {
	// FirstTagValues returns the first limit values of what TagValues does.
	FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error)
	// LastTagValues returns the last limit values, sorted.
	LastTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error)
	// TagValueCount returns how many values TagValues has for all series.
	TagValueCount(measurement, key string) (int, error)
	// CountByTagValue calls f with each value, ascending, and the number of
	// series of set that have it, until f returns false. value is f's until it
	// returns.
	CountByTagValue(measurement, key string, set *roaring.Bitmap, f func(value []byte, series int) bool) error
}
