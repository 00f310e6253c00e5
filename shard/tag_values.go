package shard

import "github.com/RoaringBitmap/roaring/v2"

// AllSeries returns the set of the shard's series. The caller owns it.
func (v *View) AllSeries() *roaring.Bitmap { return v.index.All() }

// FirstTagValues returns the first limit values of what TagValues does.
func (v *View) FirstTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	out, err := v.index.FirstTagValues(measurement, key, set, limit)
	return out, v.shard.indexError(err)
}

// LastTagValues returns the last limit values of what TagValues does.
func (v *View) LastTagValues(measurement, key string, set *roaring.Bitmap, limit int) ([]string, error) {
	out, err := v.index.LastTagValues(measurement, key, set, limit)
	return out, v.shard.indexError(err)
}

// CountByTagValue counts the series of each value of a tag key.
func (v *View) CountByTagValue(measurement, key string, set *roaring.Bitmap, f func(value []byte, series int) bool) error {
	return v.shard.indexError(v.index.CountByTagValue(measurement, key, set, f))
}

// TagValueCount returns the number of values of a tag key in a measurement.
func (v *View) TagValueCount(measurement, key string) (int, error) {
	n, err := v.index.TagValueCount(measurement, key)
	return n, v.shard.indexError(err)
}
