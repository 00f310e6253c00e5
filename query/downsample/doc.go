// Package downsample says which parts of a range of time a SELECT takes from downsamples.
//
// The planner asks a Chooser which policies have aggregates of the rows of another
// (Targets). Each operator that folds rows asks which ranges rows of these policies stand
// for (Segments), and reads the rest from the source. The Chooser reads the catalog, asks
// for estimates of what there is to read, and may be used by one statement at a time.
//
// An answer is that of the source, with these exceptions. Means and sums of floats may
// differ in the last digits. A bound of time in a window that the source no longer
// covers takes the whole window. The time of a value is the start of its window.
package downsample
