package meta

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"tsdbd/model"
)

// Definition says which rows a downsample has in a part of all time: in the windows that
// begin from Since on, until the definition after it.
type Definition struct {
	Since     int64         // ns since the epoch, a bound of windows
	Every     time.Duration // length of a window
	Functions []string      // names of InfluxQL's functions
	Where     string        `json:",omitempty"` // an InfluxQL condition; "": all rows
	// Rows keep the tags By if Grouped is set, else all tags but Without.
	Grouped bool     `json:",omitempty"`
	By      []string `json:",omitempty"`
	Without []string `json:",omitempty"`
}

// MinDownsampleEvery is the shortest window of a downsample.
const MinDownsampleEvery = time.Second

// Columns returns the functions whose values rows have, in fields that are named
// function_field: those from which the values of Functions follow.
func (d *Definition) Columns() (out []string) {
	add := func(names ...string) {
		for _, name := range names {
			if !slices.Contains(out, name) {
				out = append(out, name)
			}
		}
	}
	for _, f := range d.Functions {
		switch f {
		case "mean":
			add("sum", "count")
		case "spread":
			add("min", "max")
		default:
			add(f)
		}
	}
	return out
}

// Fold returns the function that puts values of a column together, of windows and of series.
// Values of other columns cannot be: fold is "" for them.
func Fold(column string) (fold string) {
	switch column {
	case "count", "sum":
		return "sum"
	case "min", "max", "first", "last":
		return column
	}
	return ""
}

// Keeps reports whether rows keep a tag of the source.
func (d *Definition) Keeps(tag string) bool {
	if d.Grouped {
		return slices.Contains(d.By, tag)
	}
	return !slices.Contains(d.Without, tag)
}

// equal reports whether two definitions make the same rows.
func (d *Definition) equal(o *Definition) bool {
	return d.Every == o.Every && slices.Equal(d.Functions, o.Functions) && d.Where == o.Where &&
		d.Grouped == o.Grouped && slices.Equal(d.By, o.By) && slices.Equal(d.Without, o.Without)
}

// check returns an error if the definition cannot be computed.
func (d *Definition) check() error {
	if d.Every < MinDownsampleEvery {
		return fmt.Errorf("%w: EVERY must be at least %v", ErrDownsampleInvalid, MinDownsampleEvery)
	}
	once := func(names []string) bool {
		return !slices.Contains(names, "") && len(slices.Compact(slices.Sorted(slices.Values(names)))) == len(names)
	}
	if !once(d.Functions) {
		return fmt.Errorf("%w: functions %s must be one or more, each once", ErrDownsampleInvalid, strings.Join(d.Functions, ", "))
	}
	if !once(d.By) || !once(d.Without) || len(d.By) > 0 && !d.Grouped || d.Grouped && len(d.Without) > 0 {
		return fmt.Errorf("%w: tags are named each once, after GROUP BY or WITHOUT", ErrDownsampleInvalid)
	}
	return nil
}

// start returns the start of the window that holds a time. The first window of all time
// starts at model.MinTime.
func (d *Definition) start(at int64) int64 {
	since := d.into(at)
	if at < model.MinTime+since {
		return model.MinTime
	}
	return at - since
}

// end returns the end of the window that holds a time: the start of the next one, or
// math.MaxInt64 for the last.
func (d *Definition) end(at int64) int64 {
	if rest := int64(d.Every) - d.into(at); at <= math.MaxInt64-rest {
		return at + rest
	}
	return math.MaxInt64
}

// into returns how far a time is from the start of its window.
func (d *Definition) into(at int64) int64 {
	since := at % int64(d.Every)
	if since < 0 {
		since += int64(d.Every)
	}
	return since
}

// ceil returns the start of the first window that does not begin before a time.
func (d *Definition) ceil(at int64) int64 {
	if d.start(at) == at {
		return at
	}
	return d.end(at)
}

// after returns the end of n windows, of which the first holds a time.
func (d *Definition) after(at, n int64) int64 {
	end := d.end(at)
	if n--; uint64(n) > (math.MaxInt64-uint64(end))/uint64(d.Every) { // room may be more than an int64
		return math.MaxInt64
	}
	return end + n*int64(d.Every)
}

// windows returns how many windows there are in [from, to), whose ends are bounds of
// windows.
func (d *Definition) windows(from, to int64) int64 {
	if from >= to {
		return 0
	}
	return int64((uint64(to-from)-1)/uint64(d.Every)) + 1 // the first and the last may be shorter
}

// maxBounds is how many bounds of windows are looked at for one that two definitions share.
const maxBounds = 10_000

// together returns the first time from at on at which windows of both definitions begin.
func (d *Definition) together(o *Definition, at int64) (int64, error) {
	for range maxBounds {
		at = d.ceil(at)
		next := o.ceil(at)
		if next == at {
			return at, nil
		}
		at = next
	}
	return 0, fmt.Errorf("%w: windows of %v and of %v hardly ever begin at the same time", ErrDownsampleInvalid, d.Every, o.Every)
}
