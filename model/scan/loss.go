package scan

import "tsdbd/model"

// Loss is what a store has lost to damage and cannot rebuild. It lasts until an
// operator removes the damaged file from quarantine.
type Loss struct {
	Shard uint64 // 0: of the log, any shard
	Range model.TimeRange
	Path  string // of the file that was set aside
	// Gone says that there was no file to set aside. Path and ".reason" name the
	// text that says what is gone.
	Gone bool
	// Deletes says that deletes were lost: points that were deleted may be in
	// answers. Otherwise points are missing from them.
	Deletes bool
}
