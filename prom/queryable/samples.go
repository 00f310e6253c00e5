package queryable

import (
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/prom"
)

const (
	sampleBytes = 16 // of a time and a value
	startBytes  = 8
	textBytes   = 16 // of a text, without its letters
)

// samples are in the order of time, one for a millisecond.
type samples struct {
	times  []int64
	values []float64
	// Empty, or as long as the others.
	starts     []int64
	histograms []string // "": the sample is a float
	before     string   // the histogram before the first sample, or ""
}

// columns are the fields of a metric in the chunks of a cursor: the place plus 1, or 0.
type columns [3]int // by role

// reset removes the samples and keeps their memory.
func (p *samples) reset() {
	clear(p.histograms)
	p.before = ""
	p.times, p.values, p.starts, p.histograms = p.times[:0], p.values[:0], p.starts[:0], p.histograms[:0]
}

// add appends the rows of a chunk.
func (p *samples) add(b *batch, chunk scan.Chunk, at columns) error {
	var of [3]*column.Vector
	for role, place := range at {
		if place == 0 {
			continue
		}
		v, err := chunk.Column(place - 1)
		if err != nil {
			return err
		}
		if v.Type != model.Unknown {
			of[role] = v
		}
	}
	values, histograms, starts := of[valueRole], of[histogramRole], of[startRole]
	if values == nil && histograms == nil {
		return nil
	}
	if err := p.grow(b, chunk.Len()); err != nil {
		return err
	}
	// The usual case: floats without a gap.
	if values != nil && values.Type == model.Float && values.Valid == nil && histograms == nil && starts == nil &&
		len(p.starts) == 0 && len(p.histograms) == 0 {
		return p.addFloats(chunk, values.Floats)
	}
	times, err := chunk.Times()
	if err != nil {
		return err
	}
	for i, t := range times {
		switch {
		case histograms != nil && histograms.IsValid(i) && histograms.Strings[i] != "":
			p.append(milliseconds(t), 0)
			if err := p.setHistogram(b, histograms.Strings[i]); err != nil {
				return err
			}
		case values != nil && values.IsValid(i):
			p.append(milliseconds(t), prom.Number(values, i))
		default:
			continue
		}
		if starts != nil && starts.IsValid(i) {
			if err := p.setStart(b, starts.Ints[i]); err != nil {
				return err
			}
		}
	}
	return nil
}

// addFloats appends a value for each row of a chunk. There is room for them.
func (p *samples) addFloats(chunk scan.Chunk, values []float64) error {
	n := len(p.times)
	if first := milliseconds(chunk.Min()); chunk.Step() > 0 && chunk.Step()%scale == 0 && (n == 0 || p.times[n-1] < first) {
		p.times, p.values = p.times[:n+len(values)], append(p.values, values...)
		for i, step := n, chunk.Step()/scale; i < len(p.times); i++ {
			p.times[i] = first
			first += step
		}
		return nil
	}
	times, err := chunk.Times()
	if err != nil {
		return err
	}
	to, of := p.times[:cap(p.times)], p.values[:cap(p.values)]
	for i, t := range times {
		if ms := milliseconds(t); n == 0 || to[n-1] != ms {
			to[n] = ms
			n++
		}
		of[n-1] = values[i]
	}
	p.times, p.values = to[:n], of[:n]
	return nil
}

// append adds a sample that is not older than the last one. It replaces one in the
// same millisecond.
func (p *samples) append(ms int64, value float64) {
	if n := len(p.times); n == 0 || p.times[n-1] != ms {
		p.times, p.values = append(p.times, ms), append(p.values, value)
		if len(p.starts) > 0 {
			p.starts = append(p.starts, 0)
		}
		if len(p.histograms) > 0 {
			p.histograms = append(p.histograms, "")
		}
		return
	}
	n := len(p.times) - 1
	p.values[n] = value
	if len(p.starts) > 0 {
		p.starts[n] = 0
	}
	if len(p.histograms) > 0 {
		p.histograms[n] = ""
	}
}

// setStart sets the start timestamp of the last sample.
func (p *samples) setStart(b *batch, start int64) (err error) {
	if p.starts, err = fill(b, p.starts, p, startBytes); err == nil {
		p.starts[len(p.times)-1] = start
	}
	return err
}

// setHistogram makes the last sample a histogram.
func (p *samples) setHistogram(b *batch, text string) (err error) {
	if p.histograms, err = fill(b, p.histograms, p, textBytes); err != nil {
		return err
	}
	if err := b.takeText(text); err != nil {
		return err
	}
	p.histograms[len(p.times)-1] = text
	return nil
}

// beginsWithHistogram reports whether the first sample is a histogram.
func (p *samples) beginsWithHistogram() bool { return len(p.histograms) > 0 && p.histograms[0] != "" }

// fill makes a column as long as the samples, and its room as large.
func fill[T any](b *batch, column []T, p *samples, size int) ([]T, error) {
	n := len(p.times)
	if len(column) == n {
		return column, nil
	}
	if cap(column) < n {
		var err error
		if column, err = enlarge(b, column, cap(p.times), size); err != nil {
			return column, err
		}
	}
	clear(column[len(column):n])
	return column[:n], nil
}

// grow makes room for n more samples.
func (p *samples) grow(b *batch, n int) (err error) {
	need := len(p.times) + n
	if old := cap(p.times); need > old {
		if old > 0 {
			need = max(need, 2*old)
		}
		if p.times, err = enlarge(b, p.times, need, sampleBytes/2); err != nil {
			return err
		}
	}
	if p.values, err = enlarge(b, p.values, cap(p.times), sampleBytes/2); err != nil {
		return err
	}
	if len(p.starts) > 0 {
		if p.starts, err = enlarge(b, p.starts, cap(p.times), startBytes); err != nil {
			return err
		}
	}
	if len(p.histograms) > 0 {
		p.histograms, err = enlarge(b, p.histograms, cap(p.times), textBytes)
	}
	return err
}

// enlarge returns a column with at least some capacity.
func enlarge[T any](b *batch, column []T, capacity, size int) ([]T, error) {
	old := cap(column)
	if capacity <= old {
		return column, nil
	}
	if err := b.take(int64(capacity) * int64(size)); err != nil {
		return column, err
	}
	larger := make([]T, len(column), capacity)
	copy(larger, column)
	b.give(int64(old) * int64(size))
	return larger, nil
}

// merge adds the samples of another origin of the same series. Of two samples in one
// millisecond the other's stays.
func (p *samples) merge(b *batch, other *samples) error {
	if len(other.times) == 0 {
		return nil
	}
	var all samples
	if err := all.grow(b, len(p.times)+len(other.times)); err != nil {
		return err
	}
	i, j := 0, 0
	for i < len(p.times) || j < len(other.times) {
		from, at := other, j
		if j == len(other.times) || i < len(p.times) && p.times[i] <= other.times[j] {
			from, at = p, i
			i++
		} else {
			j++
		}
		all.append(from.times[at], from.values[at])
		if len(from.starts) > 0 && from.starts[at] != 0 {
			if err := all.setStart(b, from.starts[at]); err != nil {
				return err
			}
		}
		if len(from.histograms) > 0 && from.histograms[at] != "" {
			if err := all.setHistogram(b, from.histograms[at]); err != nil {
				return err
			}
		}
	}
	if all.before = p.before; len(p.times) == 0 || other.times[0] < p.times[0] {
		all.before = other.before
	}
	b.give(p.bytes())
	*p = all
	return nil
}

// bytes returns the charged memory of the columns.
func (p *samples) bytes() int64 {
	return sampleBytes/2*int64(cap(p.times)+cap(p.values)) + startBytes*int64(cap(p.starts)) + textBytes*int64(cap(p.histograms))
}
