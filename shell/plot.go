package shell

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"github.com/guptarohit/asciigraph"
)

const (
	// maxPlotted bounds the lines of a plot: more cannot be told from each other.
	maxPlotted = 8
	plotHeight = 16
	// defaultWidth is the width of a plot when the terminal's is not known.
	defaultWidth = 80
	// axisWidth is what the labels of the vertical axis take.
	axisWidth = 14
)

var plotColors = []asciigraph.AnsiColor{asciigraph.Blue, asciigraph.Red, asciigraph.Green, asciigraph.Goldenrod, asciigraph.Magenta, asciigraph.Cyan, asciigraph.Orange, asciigraph.Gray}

// plotMarks draw the lines where there are no colors.
var plotMarks = []asciigraph.CharSet{
	asciigraph.DefaultCharSet, asciigraph.CreateCharSet("*"), asciigraph.CreateCharSet("o"), asciigraph.CreateCharSet("+"),
	asciigraph.CreateCharSet("x"), asciigraph.CreateCharSet("#"), asciigraph.CreateCharSet("="), asciigraph.CreateCharSet("%"),
}

// plotter draws the numbers of a statement over time.
type plotter struct {
	out   io.Writer
	width int

	names  map[string]int // of a line, by table and column
	lines  []plotted
	missed map[string]bool // lines that there was no room for
}

type plotted struct {
	name   string
	times  []int64
	values []float64
}

func (p *plotter) series(s *series) error {
	at := s.timeColumn()
	if at < 0 {
		return fmt.Errorf("a plot needs times; this answer has none. Use another format")
	}
	for c, column := range s.Columns {
		if c == at {
			continue
		}
		name := s.Name + "." + column
		if s.promQL {
			name = s.Name
		}
		if tags := s.tagText(); tags != "" {
			name = strings.TrimSpace(name + " " + tags)
		}
		for _, row := range s.Values {
			number, ok := row[c].(json.Number)
			if !ok {
				continue
			}
			v, err := number.Float64()
			if err != nil || math.IsInf(v, 0) {
				continue // beyond a float64, or of the plot
			}
			t, err := row[at].(json.Number).Int64()
			if err != nil {
				return fmt.Errorf("time %v: %w", row[at], err)
			}
			p.add(name, t, v)
		}
	}
	return nil
}

func (p *plotter) add(name string, t int64, v float64) {
	i, ok := p.names[name]
	if !ok {
		if len(p.lines) == maxPlotted {
			if p.missed == nil {
				p.missed = map[string]bool{}
			}
			p.missed[name] = true
			return
		}
		if p.names == nil {
			p.names = map[string]int{}
		}
		i = len(p.lines)
		p.names[name] = i
		p.lines = append(p.lines, plotted{name: printable(name)})
	}
	line := &p.lines[i]
	line.times, line.values = append(line.times, t), append(line.values, v)
}

// end draws what the statement gave.
func (p *plotter) end() error {
	if len(p.lines) == 0 {
		return nil
	}
	lines, missed := p.lines, len(p.missed)
	p.lines, p.names, p.missed = nil, nil, nil
	first, last := int64(math.MaxInt64), int64(math.MinInt64)
	for _, l := range lines {
		for _, t := range l.times {
			first, last = min(first, t), max(last, t)
		}
	}
	width := defaultWidth
	if p.width > 0 {
		width = p.width
	}
	width = max(10, width-axisWidth)
	var data [][]float64
	var names []string
	for _, l := range lines {
		data = append(data, l.means(first, last, width))
		names = append(names, l.name)
	}
	layout := layoutFor(time.Duration(last - first))
	options := []asciigraph.Option{
		asciigraph.Height(plotHeight), asciigraph.XAxisRange(float64(first), float64(last)), asciigraph.XAxisTickCount(max(2, width/20)),
		asciigraph.XAxisValueFormatter(func(t float64) string { return time.Unix(0, int64(t)).UTC().Format(layout) }),
	}
	if p.width > 0 {
		options = append(options, asciigraph.SeriesColors(plotColors[:len(data)]...), asciigraph.SeriesLegends(names...))
	} else { // a file has no colors
		options = append(options, asciigraph.SeriesChars(plotMarks[:len(data)]...))
	}
	text := asciigraph.PlotMany(data, options...)
	if p.width == 0 {
		for i, name := range names {
			text += "\n" + plotMarks[i].Horizontal + " " + name
		}
	}
	if missed > 0 {
		text += fmt.Sprintf("\n%d more series are not drawn", missed)
	}
	_, err := fmt.Fprintln(p.out, text)
	return err
}

// means returns the mean of the values in each of n parts of a range. A part without a
// value is NaN, which is a gap.
func (l *plotted) means(first, last int64, n int) []float64 {
	sums, counts := make([]float64, n), make([]int, n)
	for i, t := range l.times {
		at := 0
		if last > first {
			at = min(n-1, int(float64(t-first)/float64(last-first)*float64(n)))
		}
		sums[at] += l.values[i]
		counts[at]++
	}
	if len(l.times) < n { // fewer values than columns: a line from each to the next
		return l.between(first, last, n)
	}
	for i, c := range counts {
		if c == 0 {
			sums[i] = math.NaN()
		} else {
			sums[i] /= float64(c)
		}
	}
	return sums
}

// between returns the values at n times of a range, on straight lines.
func (l *plotted) between(first, last int64, n int) []float64 {
	values, at := make([]float64, n), 0
	for i := range values {
		t := first + int64(float64(last-first)*float64(i)/float64(max(1, n-1)))
		for at < len(l.times) && l.times[at] < t {
			at++
		}
		switch {
		case at == len(l.times) || at == 0 && l.times[0] > t:
			values[i] = math.NaN()
		case at == 0 || l.times[at] == t:
			values[i] = l.values[at]
		default:
			share := float64(t-l.times[at-1]) / float64(l.times[at]-l.times[at-1])
			values[i] = l.values[at-1] + share*(l.values[at]-l.values[at-1])
		}
	}
	return values
}

// layoutFor returns the layout of times on an axis of a length.
func layoutFor(d time.Duration) string {
	switch {
	case d > 48*time.Hour:
		return "01-02 15h"
	case d > 10*time.Minute:
		return "15:04"
	}
	return "15:04:05"
}
