package meta

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"tsdbd/model"
	"tsdbd/query/window"
)

// Definition says which rows a downsample has in a part of all time: in the windows that
// begin from Since on, until the definition after it.
type Definition struct {
	Since int64 // ns since the epoch, a bound of windows
	Period
	// Functions are names of InfluxQL's functions, for all fields but those for which there are
	// functions of their own: function(field).
	Functions []string
	Where     string `json:",omitempty"` // an InfluxQL condition; "": all rows
	// Rows keep the tags By if Grouped is set, else all tags but Without.
	Grouped bool     `json:",omitempty"`
	By      []string `json:",omitempty"`
	Without []string `json:",omitempty"`
}

// Period says which windows a downsample has.
type Period struct {
	Every  time.Duration `json:",omitempty"` // length of a window; of months the greatest that they can have
	Months int           `json:",omitempty"` // 0: windows are no months
	// Zone names the time zone on whose clock months, or whole days, are counted; "": UTC.
	Zone string `json:",omitempty"`
}

// Windows returns the windows.
func (p Period) Windows() window.Windows {
	w := window.Windows{Every: int64(p.Every), Months: p.Months}
	if p.Months > 0 {
		w.Loc = time.UTC
	}
	if p.Zone != "" {
		if loc, err := window.Location(p.Zone); err == nil { // check has had no error
			w.Loc = loc
		}
	}
	return w
}

// String returns the period as a statement has it behind EVERY.
func (p Period) String() string {
	w := p.Windows()
	return w.String()
}

// check returns an error if there are no such windows.
func (p Period) check() error {
	switch {
	case p.Every < MinDownsampleEvery:
		return fmt.Errorf("%w: EVERY must be at least %v", ErrDownsampleInvalid, MinDownsampleEvery)
	case p.Months != 0 && p.Every != time.Duration(p.Months)*window.MonthLength:
		return fmt.Errorf("%w: %d months are not %v", ErrDownsampleInvalid, p.Months, p.Every)
	case p.Zone == "":
		return nil
	case p.Months == 0 && p.Every%(24*time.Hour) != 0:
		return fmt.Errorf("%w: EVERY %v is no whole number of days, which a time zone needs", ErrDownsampleInvalid, p.Every)
	case p.Zone == "Local":
		return fmt.Errorf("%w: the time zone Local is not the same everywhere", ErrDownsampleInvalid)
	}
	if _, err := window.Location(p.Zone); err != nil {
		return fmt.Errorf("%w: %w", ErrDownsampleInvalid, err)
	}
	return nil
}

// MinDownsampleEvery is the shortest window of a downsample.
const MinDownsampleEvery = time.Second

// functions are those that a downsample may have. Each takes one field and gives one value for
// a window.
var functions = map[string]struct {
	// columns are the functions from whose values its own follow; none: itself.
	columns []string
	// call is the function that computes it, if that has another name.
	call string
	// fold is the function that puts its values together, of windows and of series; "": none
	// does.
	fold string
	// approximate says that what follows from its values is an estimate.
	approximate bool
	// text says that it takes text, which wildcards leave out.
	text bool
	// back says that it needs the rows of the window before.
	back bool
}{
	"count":      {fold: "sum"},
	"distinct":   {call: "sum_hll", fold: "merge_hll", text: true},
	"first":      {fold: "first"},
	"increase":   {fold: "sum", back: true},
	"last":       {fold: "last"},
	"max":        {fold: "max"},
	"mean":       {columns: []string{"sum", "count"}},
	"median":     {},
	"min":        {fold: "min"},
	"mode":       {},
	"percentile": {call: "sum_ddsketch", fold: "merge_ddsketch", approximate: true},
	"spread":     {columns: []string{"min", "max"}},
	"stddev":     {},
	"sum":        {fold: "sum"},
}

// DownsampleFunctions returns the names of the functions that a downsample may have, sorted.
func DownsampleFunctions() []string { return slices.Sorted(maps.Keys(functions)) }

// Columns returns the functions whose values rows have, in fields that are named
// function_field: those from which the values of Functions follow, of any field.
func (d *Definition) Columns() []string { return columnsOf(d.Functions) }

// ColumnsOf returns those of one field. "" is all fields that Functions do not name.
func (d *Definition) ColumnsOf(field string) []string {
	var own, rest []string
	for _, f := range d.Functions {
		switch _, of := SplitFunction(f); of {
		case "":
			rest = append(rest, f)
		case field:
			own = append(own, f)
		}
	}
	if len(own) > 0 {
		return columnsOf(own)
	}
	return columnsOf(rest)
}

// Fields returns the fields that Functions name.
func (d *Definition) Fields() (out []string) {
	for _, f := range d.Functions {
		if _, field := SplitFunction(f); field != "" && !slices.Contains(out, field) {
			out = append(out, field)
		}
	}
	return out
}

// columnsOf returns the columns from which the values of functions follow.
func columnsOf(list []string) (out []string) {
	for _, f := range list {
		f, _ = SplitFunction(f)
		columns := functions[f].columns
		if columns == nil {
			columns = []string{f}
		}
		for _, c := range columns {
			if !slices.Contains(out, c) {
				out = append(out, c)
			}
		}
	}
	return out
}

// FunctionOf returns the function of one field as Definition.Functions has it.
func FunctionOf(name, field string) string { return name + "(" + field + ")" }

// SplitFunction returns the name of a function of a definition, and the field that it is of, ""
// if that is all fields but those that are named.
func SplitFunction(f string) (name, field string) {
	name, field, _ = strings.Cut(f, "(")
	return name, strings.TrimSuffix(field, ")")
}

// Fold returns the function that puts values of a column together, of windows and of series.
// Values of other columns cannot be: fold is "" for them.
func Fold(column string) (fold string) { return functions[column].fold }

// Call returns the function that computes the values of a column.
func Call(column string) string { return cmp.Or(functions[column].call, column) }

// TakesText reports whether the function of a column takes text.
func TakesText(column string) bool { return functions[column].text }

// Approximate reports whether what follows from values of a column is an estimate, which never
// stands for rows that there are.
func Approximate(column string) bool { return functions[column].approximate }

// LooksBack reports whether values of a column need the rows of the window before theirs.
func LooksBack(column string) bool { return functions[column].back }

// looksBack reports whether rows need those of the window before.
func (d *Definition) looksBack() bool { return slices.ContainsFunc(d.Columns(), LooksBack) }

// Keeps reports whether rows keep a tag of the source.
func (d *Definition) Keeps(tag string) bool {
	if d.Grouped {
		return slices.Contains(d.By, tag)
	}
	return !slices.Contains(d.Without, tag)
}

// equal reports whether two definitions make the same rows.
func (d *Definition) equal(o *Definition) bool {
	return d.Period == o.Period && slices.Equal(d.Functions, o.Functions) && d.Where == o.Where &&
		d.Grouped == o.Grouped && slices.Equal(d.By, o.By) && slices.Equal(d.Without, o.Without)
}

// check returns an error if the definition cannot be computed.
func (d *Definition) check() error {
	if err := d.Period.check(); err != nil {
		return err
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

// ceil returns the start of the first window that does not begin before a time.
func ceil(w *window.Windows, at int64) int64 {
	if w.Start(at) == at {
		return at
	}
	return w.End(at)
}

// begins reports whether a window begins at a time, which is not the first of all.
func (d *Definition) begins(at int64) bool {
	w := d.Windows()
	return at > w.End(model.MinTime) && w.Start(at) == at
}

// maxBounds is how many bounds of windows are looked at for one that two definitions share.
const maxBounds = 10_000

// together returns the first time from at on at which windows of both definitions begin.
func (d *Definition) together(o *Definition, at int64) (int64, error) {
	w, v := d.Windows(), o.Windows()
	for range maxBounds {
		at = ceil(&w, at)
		next := ceil(&v, at)
		if next == at {
			return at, nil
		}
		at = next
	}
	return 0, fmt.Errorf("%w: windows of %v and of %v hardly ever begin at the same time", ErrDownsampleInvalid, d.Period, o.Period)
}
