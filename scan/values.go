package scan

import "github.com/RoaringBitmap/roaring/v2"

// SeriesIndex is what a Shard may implement beside Shard, to count series
// without going through the measurements.
type SeriesIndex interface {
	// AllSeries returns the series of all measurements. The caller owns the set.
	AllSeries() *roaring.Bitmap
}

// TagValueIndex is what a Shard may implement beside Shard, to spare SHOW TAG
// VALUES the values that it does not show.
type TagValueIndex interface {
	// FirstTagValues returns the first limit values of what TagValues does.
	FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error)
	// TagValueCount returns how many values TagValues has for all series.
	TagValueCount(measurement, key string) (int, error)
}
