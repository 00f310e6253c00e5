package compare

import (
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"text/tabwriter"

	"tsdbd/model"
)

// tolerance is the relative difference of two sums of floats that is none.
const tolerance = 1e-9

// Difference is one number that differs.
type Difference struct {
	Name  Name
	Field string // "" of the series
	What  string // "series", "count", "sum", or "type"
	Left  string
	Right string
	Fewer bool // the right has fewer series or values
	More  bool // the right has more of them
}

// Text names the difference between two places.
func (d *Difference) Text(left, right string) string {
	of := fmt.Sprintf("%q of %s.%s", d.Name.Measurement, d.Name.Database, d.Name.Policy)
	if d.Field != "" {
		of = fmt.Sprintf("field %q of %s", d.Field, of)
	}
	return fmt.Sprintf("%s: %s %s in %s, %s in %s", of, d.What, d.Left, left, d.Right, right)
}

// Differences compares two totals, in order of names.
func Differences(left, right Totals) (out []Difference) {
	all := maps.Clone(right)
	maps.Copy(all, left)
	for _, n := range all.Names() {
		l, r := left.orNone(n), right.orNone(n)
		if l.Series != r.Series && l.Series >= 0 && r.Series >= 0 {
			out = append(out, Difference{n, "", "series", fmt.Sprint(l.Series), fmt.Sprint(r.Series), r.Series < l.Series, r.Series > l.Series})
		}
		out = append(out, l.differences(r, n)...)
	}
	return out
}

func (m *Measurement) differences(o *Measurement, name Name) (out []Difference) {
	keys := map[string]bool{}
	for k := range m.Fields {
		keys[k] = true
	}
	for k := range o.Fields {
		keys[k] = true
	}
	for _, k := range slices.Sorted(maps.Keys(keys)) {
		l, r := m.Fields[k], o.Fields[k]
		if l == nil {
			l = &Field{}
		}
		if r == nil {
			r = &Field{}
		}
		switch {
		case l.Count != r.Count:
			out = append(out, Difference{name, k, "count", fmt.Sprint(l.Count), fmt.Sprint(r.Count), r.Count < l.Count, r.Count > l.Count})
		case l.Count == 0 || l.Type == model.Unknown || r.Type == model.Unknown:
		case l.Type != r.Type:
			out = append(out, Difference{name, k, "type", l.Type.String(), r.Type.String(), false, false})
		case !l.sameSum(r):
			x, _ := l.number()
			y, _ := r.number()
			out = append(out, Difference{name, k, "sum", fmt.Sprint(x), fmt.Sprint(y), false, false})
		}
	}
	return out
}

// sameSum compares the sums of fields of one type.
func (f *Field) sameSum(o *Field) bool {
	if f.Type != model.Float {
		return f.Integer == o.Integer
	}
	x, y := f.sum(), o.sum()
	if finite := func(x float64) bool { return x-x == 0 }; !finite(x) || !finite(y) {
		return true // in another order the sum of the same values may not overflow
	}
	if x == y {
		return true
	}
	return math.Abs(x-y) <= tolerance*max(math.Abs(x), math.Abs(y))
}

// tableDifferences bounds the differences that Table names.
const tableDifferences = 100

// Table prints a row for each measurement, and the differences by their names.
func Table(w io.Writer, leftTitle, rightTitle string, left, right Totals) error {
	differences := Differences(left, right)
	wrong := map[Name]bool{}
	for i := range differences {
		wrong[differences[i].Name] = true
	}
	all := maps.Clone(right)
	maps.Copy(all, left)
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintf(t, "measurement\tseries in %s\tin %s\tvalues in %s\tin %s\t\n", leftTitle, rightTitle, leftTitle, rightTitle)
	for _, n := range all.Names() {
		same := "equal"
		if wrong[n] {
			same = "differs"
		}
		l, r := left.orNone(n), right.orNone(n)
		fmt.Fprintf(t, "%s.%s.%s\t%s\t%s\t%d\t%d\t%s\n", n.Database, n.Policy, n.Measurement, l.series(), r.series(), l.Values(), r.Values(), same)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for i := range differences {
		if i == tableDifferences {
			_, err := fmt.Fprintf(w, "and %d more differences\n", len(differences)-i)
			return err
		}
		if _, err := fmt.Fprintln(w, differences[i].Text(leftTitle, rightTitle)); err != nil {
			return err
		}
	}
	return nil
}

// orNone returns a measurement, or an empty one.
func (t Totals) orNone(n Name) *Measurement {
	if m := t[n]; m != nil {
		return m
	}
	return &Measurement{}
}

// series returns the number of series as the table shows it.
func (m *Measurement) series() string {
	if m.Series < 0 {
		return "-"
	}
	return fmt.Sprint(m.Series)
}
