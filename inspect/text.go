package inspect

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"
	"time"

	"tsdbd/internal/binio"
)

// Problem is something that is not as it should be.
type Problem struct {
	Path   string `json:"path"`
	Offset int64  `json:"offset"` // -1: unknown, or the file as a whole
	Bytes  int64  `json:"bytes,omitempty"`
	Reason string `json:"reason"`
	// Notice says that nothing is lost: a torn end whose write was not
	// acknowledged, a file that a crash left, a copy that will be rewritten.
	Notice bool `json:"notice,omitempty"`
}

func (p Problem) String() string {
	kind := "damage"
	if p.Notice {
		kind = "notice"
	}
	at := ""
	if p.Offset >= 0 {
		at = fmt.Sprintf(" at offset %d", p.Offset)
	}
	return fmt.Sprintf("%s: %s%s: %s", kind, p.Path, at, p.Reason)
}

// Damages returns the damage in a report, without notices.
func Damages(report Texter) []Problem {
	r, ok := report.(interface{ damage() []Problem })
	if !ok {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(r.damage()), func(p Problem) bool { return p.Notice })
}

// problems takes an error apart that may join several.
func problems(path string, err error) []Problem {
	if err == nil {
		return nil
	}
	if j, ok := err.(interface{ Unwrap() []error }); ok {
		var out []Problem
		for _, e := range j.Unwrap() {
			out = append(out, problems(path, e)...)
		}
		return out
	}
	p := Problem{Path: path, Offset: -1, Reason: err.Error()}
	var c *binio.CorruptError
	if errors.As(err, &c) {
		p.Offset, p.Reason = c.Offset, c.Reason
		if c.Path != "" {
			p.Path = c.Path
		}
	}
	return []Problem{p}
}

func writeProblems(w io.Writer, list []Problem) error {
	for _, p := range list {
		if _, err := fmt.Fprintln(w, p); err != nil {
			return err
		}
	}
	return nil
}

// Texter is a report that can be written for people. All reports can also be
// marshalled as JSON.
type Texter interface{ WriteText(w io.Writer) error }

// Write writes a report as text or as JSON.
func Write(w io.Writer, r Texter, asJSON bool) error {
	if !asJSON {
		return r.WriteText(w)
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// table writes aligned columns.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer, head ...any) *table {
	t := &table{tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)}
	t.row(head...)
	return t
}

func (t *table) row(cells ...any) {
	for i, c := range cells {
		if i > 0 {
			_, _ = io.WriteString(t.w, "\t")
		}
		_, _ = fmt.Fprint(t.w, c)
	}
	_, _ = io.WriteString(t.w, "\n")
}

func (t *table) flush() error { return t.w.Flush() }

// bytesText returns a size for people.
func bytesText(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1fGiB", float64(n)/(1<<30))
	case n >= 10<<20:
		return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20))
	case n >= 10<<10:
		return fmt.Sprintf("%.1fKiB", float64(n)/(1<<10))
	}
	return fmt.Sprintf("%dB", n)
}

func timeText(t int64) string { return time.Unix(0, t).UTC().Format(time.RFC3339Nano) }
