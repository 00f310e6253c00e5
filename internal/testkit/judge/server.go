package judge

import (
	"cmp"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Server is what is judged.
type Server interface {
	// Post sends a request and returns status and answer. An error means that there was none.
	Post(path string, params url.Values, body string) (status int, answer string, err error)
	// Crash kills what a client talks to. Start brings it back.
	Crash()
	Start()
	// Cut cuts its power, so that it loses what is not synced, or is Crash where there is no disk
	// that could lose anything.
	Cut()
	// Restart ends the server in order, and starts it again.
	Restart()
	// Restore goes on with a fresh server that has what a backup has.
	Restore()
}

// result is what a statement answers.
type result struct {
	Error    string
	Series   []table
	Messages []struct{ Text string }
}

type table struct {
	Name    string
	Tags    map[string]string
	Columns []string
	Values  [][]any
}

// column returns a cell of a row by name.
func (t *table) column(row []any, name string) any {
	if i := slices.Index(t.Columns, name); i >= 0 {
		return row[i]
	}
	return nil
}

// query runs a statement. An error is that of the statement, or there was no answer.
func (j *Judge) query(text string) (*result, error) {
	status, body, err := j.server.Post("/query", url.Values{"db": {"d"}, "q": {text}, "epoch": {"ns"}, "hints": {"true"}}, "")
	if err != nil {
		return nil, err
	}
	var doc struct {
		Error   string
		Results []result
	}
	d := json.NewDecoder(strings.NewReader(body))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil || status != 200 || len(doc.Results) != 1 {
		return nil, fmt.Errorf("%d %.500s %w", status, body, err)
	}
	r := &doc.Results[0]
	if r.Error != "" {
		return r, fmt.Errorf("%s", r.Error)
	}
	return r, nil
}

// must runs a statement that succeeds.
func (j *Judge) must(text string) *result {
	j.t.Helper()
	r, err := j.query(text)
	if err != nil {
		j.fatalf("%s: %v", text, err)
	}
	return r
}

// write stores lines.
func (j *Judge) write(lines string) error {
	status, body, err := j.server.Post("/write", url.Values{"db": {"d"}}, lines)
	if err == nil && status != 204 {
		err = fmt.Errorf("%d %s", status, body)
	}
	return err
}

// await waits until a condition holds.
func (j *Judge) await(what string, condition func() error) {
	j.t.Helper()
	var err error
	for end := time.Now().Add(3 * time.Minute); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = condition(); err == nil {
			return
		}
	}
	j.fatalf("%s: %v", what, err)
}

// settle waits until all windows are computed. A server looks at windows of the calendar once a
// minute, and when it starts.
func (j *Judge) settle() {
	j.t.Helper()
	begun, last, slow := time.Now(), "", false
	for _, t := range j.shadow.tiers {
		slow = slow || t.live && (t.current().months > 0 || t.current().zone != "")
	}
	defer func() {
		if took := time.Since(begun); took > 5*time.Second {
			j.say("  settled after %v: %s", took, last)
		}
	}()
	j.await("windows wait", func() error {
		r, err := j.query("SHOW DOWNSAMPLES")
		if err != nil {
			return err
		}
		for _, s := range r.Series {
			for _, row := range s.Values {
				if fmt.Sprint(s.column(row, "waiting")) != "0" || s.column(row, "error") != "" {
					if slow && time.Since(begun) > 4*time.Second {
						slow = false
						j.server.Restart()
					}
					return fmt.Errorf("%v", row)
				}
			}
		}
		return nil
	})
}

// group is a shard group. Each has one shard.
type group struct {
	shard      int64
	start, end int64
}

func (g *group) holds(at int64) bool { return g.start <= at && at < g.end }

// groups returns the shard groups of a policy, in order.
func (j *Judge) groups(policy string) (out []group) {
	j.t.Helper()
	for _, s := range j.must("SHOW SHARDS").Series {
		for _, row := range s.Values {
			if s.column(row, "database") != "d" || s.column(row, "retention_policy") != policy {
				continue
			}
			g := group{shard: integer(s.column(row, "id"))}
			for i, name := range []string{"start_time", "end_time"} {
				text, _ := s.column(row, name).(string)
				at, err := time.Parse(time.RFC3339, text)
				if err != nil {
					j.fatalf("%v: %v", row, err)
				}
				*[]*int64{&g.start, &g.end}[i] = at.UnixNano()
			}
			out = append(out, g)
		}
	}
	slices.SortFunc(out, func(a, b group) int { return cmp.Compare(a.start, b.start) })
	return out
}

// known returns from when on the source of a tier has all rows that its target has, and false
// if there are some earlier ones.
func (j *Judge) known(t *tier) (at int64, ok bool) {
	j.t.Helper()
	from := j.groups(t.from)
	expired := j.shadow.expired[t.from]
	at = always
	if expired != 0 {
		at = expired
	}
	for _, g := range j.groups(t.into) {
		switch {
		case expired != 0 && g.start < expired, slices.ContainsFunc(from, func(o group) bool { return o.start < g.end && g.start < o.end }):
		case len(from) > 0 && from[0].start < g.start:
			return 0, false
		default:
			at = max(at, g.end)
		}
	}
	return at, true
}
