// Package quantiles estimates the values that have given ranks among many: DDSketch with a
// relative error of 1 %. A Sketch counts values in bins, whose bounds are the powers of one
// number; sketches are put together by adding the counts. So the same values give the same
// sketch, and the same text, in whatever order and by whatever parts they come.
//
// github.com/DataDog/sketches-go maps values to bins and defines the bytes of a text. The
// bins are held here: in order, so that the text follows from the values alone, and in memory
// that is known.
//
// A Sketch belongs to one caller at a time.
package quantiles
