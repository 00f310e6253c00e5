package scan

import "tsdbd/model"

// Loss is what a store has lost to damage and could not make anew. It holds
// until an operator has dealt with the damaged file.
type Loss struct {
	Shard uint64 // 0: of the log, any shard
	Range model.TimeRange
	Path  string // of the file that was set aside
	// Gone says that there was no file to set aside. Path and ".reason" name the
	// text that tells what is gone.
	Gone bool
	// Deletes says that deletes were lost: points that were deleted may be in
	// answers. Otherwise points are missing from them.
	Deletes bool
}
