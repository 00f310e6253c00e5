package shell

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// series is a part of a table of an answer.
type series struct {
	Name    string
	Tags    map[string]string
	Columns []string
	Values  [][]any // json.Number, string, bool, nil
	Partial bool    // more rows follow
	promQL  bool    // the one value has no name of its own
}

// key tells the parts of one table from those of another.
func (s *series) key() string {
	return strings.Join([]string{s.Name, s.tagText(), strings.Join(s.Columns, "\x00")}, "\x01")
}

// tagText returns the tags as key=value, in the order of their keys.
func (s *series) tagText() string {
	var pairs []string
	for _, k := range slices.Sorted(maps.Keys(s.Tags)) {
		pairs = append(pairs, k+"="+s.Tags[k])
	}
	return strings.Join(pairs, ", ")
}

// timeColumn returns the number of the column time, or -1.
func (s *series) timeColumn() int { return slices.Index(s.Columns, "time") }

type message struct{ Level, Text string }

type statement struct {
	ID       int `json:"statement_id"`
	Series   []series
	Messages []message
	Error    string
	Partial  bool // more of it follows
}

// part is one document of a chunked answer.
type part struct {
	Results []statement
	Error   string
}

// formatter writes tables.
type formatter interface {
	series(s *series) error
	// end is called after the last part of a statement.
	end() error
}

// readAnswer hands the tables of an answer to f, part by part, and writes messages
// and errors to out, or what is done by a statement that has nothing else to say. The
// error is ErrStatement if the answer had one.
func readAnswer(body io.Reader, f formatter, out io.Writer, done []string) error {
	dec := json.NewDecoder(body)
	dec.UseNumber()
	var failed error
	cut := -1 // the statement whose further rows are left out
	for {
		var p part
		switch err := dec.Decode(&p); {
		case errors.Is(err, io.EOF):
			return failed
		case err != nil:
			return fmt.Errorf("read answer: %w", err)
		}
		if p.Error != "" {
			return errors.New(p.Error)
		}
		for _, st := range p.Results {
			for i := range st.Series {
				if cut == st.ID {
					break
				}
				switch err := f.series(&st.Series[i]); {
				case errors.Is(err, errCut) && st.ID == len(done)-1:
					return errors.Join(failed, f.end())
				case errors.Is(err, errCut):
					cut = st.ID // the statements behind it have an answer, too
				case err != nil:
					return err
				}
			}
			if !st.Partial {
				if err := f.end(); err != nil {
					return err
				}
			}
			for _, m := range st.Messages {
				if _, err := fmt.Fprintf(out, "%s: %s\n", m.Level, printable(m.Text)); err != nil {
					return err
				}
			}
			if st.Error == "" && len(st.Series)+len(st.Messages) == 0 && st.ID < len(done) && done[st.ID] != "" {
				if _, err := fmt.Fprintln(out, printable(done[st.ID])); err != nil {
					return err
				}
			}
			if st.Error != "" {
				failed = cmp.Or(failed, fmt.Errorf("%w: %s", ErrStatement, printable(st.Error)))
				if _, err := fmt.Fprintf(out, "ERR: %s\n", printable(st.Error)); err != nil {
					return err
				}
			}
		}
	}
}
