package engine

import (
	"context"
	"time"

	"tsdbd/query/admission"
	"tsdbd/query/engine/plan"
	"tsdbd/query/result"
)

// Options says in which surroundings a SELECT runs. The zero value works.
type Options struct {
	Now time.Time // zero: the clock
	// ChunkSize cuts the answer into Results of at most so many rows, each of
	// one series; 0 gives one Result.
	ChunkSize int
	// Turn is the query's share of the cores; nil never waits.
	Turn *admission.Turn
	// Workers bounds the goroutines of one query; 0 is the number of CPUs.
	// Results do not depend on it.
	Workers int

	MaxSelectPoint   int   // points read; 0 is no limit
	MaxSelectSeries  int   // series opened; 0 is no limit
	MaxSelectBuckets int   // windows of GROUP BY time; 0 is no limit
	MemoryBytes      int64 // data held at once; 0 is DefaultMemoryBytes, < 0 no limit

	// Account is charged for the data held; nil is no limit.
	Account *admission.Account

	// Warn takes texts for the client that go with the answer, before the first
	// Result; nil drops them.
	Warn func(text string)

	// Downsamples says which downsamples there are; nil: none are read.
	Downsamples plan.Downsamples
	// Note takes what is to say of the downsamples that were read, or not, before the first
	// Result; nil drops it.
	Note func(note Note)

	// Tests make these small. 0 is the default.
	streamRows int64 // rows of one output series in a slice on its way out, about
	workRows   int   // rows an operator works on between two looks at the context
	partNames  int   // measurements that a level reads at once

	// Into receives the rows of SELECT ... INTO. Without it such a statement fails.
	Into func(ctx context.Context, b *result.IntoBatch) error
}

// Note is a text on a downsample.
type Note struct {
	Text   string
	Unused bool // it has rows that no others stand for, but could not answer
}
