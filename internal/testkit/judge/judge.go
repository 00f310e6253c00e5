package judge

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

var names = []string{"m0", "m1", "m2"}

// span is the length of a shard group of raw.
const span = 2 * 3600 * second

// base is the time of the first rows. The others lie in the 28 hours from there on. They are as
// old as they are for the calendar (see calendars).
var base = time.Date(2024, 3, 30, 22, 0, 0, 0, time.UTC).UnixNano()

// Options says what a Judge does.
type Options struct {
	Seed     uint64
	Steps    int
	Asks     int  // statements that are compared at a time
	Complete bool // the server has query.use-downsamples = complete
}

// Judge makes steps and compares.
type Judge struct {
	t      testing.TB
	opt    Options
	server Server
	rnd    *rand.Rand
	shadow *shadow
	lives  map[string]life // of policies that do not keep rows forever
	log    []string
	counts map[string]int // what was done, for the report
}

// life is how long a policy keeps rows: shard groups that end after a time by a minute or more.
type life struct {
	end int64
	set time.Time // the later, the longer the life must be
}

// Run judges a server that has nothing.
func Run(t testing.TB, server Server, opt Options) {
	t.Helper()
	j := &Judge{
		t: t, opt: opt, server: server, rnd: rand.New(rand.NewPCG(opt.Seed, 24)), counts: map[string]int{}, lives: map[string]life{},
		shadow: &shadow{points: map[int64]*point{}, expired: map[string]int64{}},
	}
	j.must("CREATE DATABASE d WITH SHARD DURATION 2h NAME raw")
	for i, span := range []string{"2h", "4h", "2h", "24h", "168h"} {
		j.must(fmt.Sprintf("CREATE RETENTION POLICY t%d ON d DURATION INF REPLICATION 1 SHARD DURATION %s", i+1, span))
	}
	for n := range opt.Steps {
		if n < 5 { // there is something to lose
			j.stepWrite()
			j.stepCreate()
		}
		j.step()
	}
	j.say("at the end")
	j.compare()
	j.say("after a restart")
	j.server.Restart()
	j.compare()
	t.Logf("seed %d: %v", opt.Seed, j.counts)
}

// say notes what is done.
func (j *Judge) say(format string, args ...any) string {
	text := fmt.Sprintf(format, args...)
	j.log = append(j.log, text)
	return text
}

func (j *Judge) fatalf(format string, args ...any) {
	j.t.Helper()
	last := j.log[max(0, len(j.log)-60):]
	if r, err := j.query("SHOW DOWNSAMPLES"); err == nil {
		for _, s := range r.Series {
			last = append(last, fmt.Sprint(s.Columns))
			for _, row := range s.Values {
				last = append(last, fmt.Sprint(row))
			}
		}
	}
	j.t.Fatalf("seed %d, complete %t, after\n  %s\n%s", j.opt.Seed, j.opt.Complete, strings.Join(last, "\n  "), fmt.Sprintf(format, args...))
}

func (j *Judge) pick(list ...string) string { return list[j.rnd.IntN(len(list))] }

// spot returns a time. Many are near each other, at the bounds of shard groups.
func (j *Judge) spot() int64 {
	at := base + j.rnd.Int64N(14)*span
	switch j.rnd.IntN(4) {
	case 0:
		at += j.rnd.Int64N(span)
	case 1:
		at += span - 1 - j.rnd.Int64N(150*second)
	case 2:
		at += span/2 + j.rnd.Int64N(150*second)
	default:
		at += j.rnd.Int64N(150 * second)
	}
	return at
}

// oldest returns the first time that rows may be written for.
func (j *Judge) oldest() int64 {
	if l, ok := j.lives[raw]; ok {
		return l.end + 3500*second
	}
	return always
}

// live gives a policy a life. It must do for an hour.
func (j *Judge) live(policy string, end int64) error {
	now := time.Now()
	j.lives[policy] = life{end, now}
	return j.change(fmt.Sprintf("ALTER RETENTION POLICY %s ON d DURATION %ds", policy, (now.UnixNano()-end)/second-60))
}

// step makes a step.
func (j *Judge) step() {
	j.t.Helper()
	for _, policy := range []string{raw, "t1"} {
		if l, ok := j.lives[policy]; ok && time.Since(l.set) > 50*time.Minute {
			if err := j.live(policy, l.end); err != nil {
				j.fatalf("a longer life: %v", err)
			}
		}
	}
	kind, total := steps[0], 0
	for _, s := range steps {
		total += s.weight
	}
	at := j.rnd.IntN(total)
	for _, s := range steps {
		if at -= s.weight; at < 0 {
			kind = s
			break
		}
	}
	if kind.do(j) {
		j.counts[kind.name]++
	}
}

// change sends a statement that may be repeated. Now and then the server is killed meanwhile.
// It returns the error of the statement.
func (j *Judge) change(text string) error {
	j.t.Helper()
	j.say("%s", text)
	if j.rnd.IntN(12) > 0 {
		_, err := j.query(text)
		return err
	}
	j.killed(func() { _, _ = j.query(text) })
	_, err := j.query(text)
	if err != nil && strings.Contains(err.Error(), "not found") {
		return nil // it was done
	}
	return err
}

// killed kills the server while something is done.
func (j *Judge) killed(do func()) {
	down := j.server.Crash
	if j.rnd.IntN(3) == 0 {
		j.say("  power cut")
		down = j.server.Cut
	} else {
		j.say("  killed")
	}
	j.counts["killed in a statement"]++
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	time.Sleep(time.Duration(j.rnd.Int64N(int64(15 * time.Millisecond))))
	down()
	<-done
	j.server.Start()
}

// compare compares all targets and some answers.
func (j *Judge) compare() {
	j.t.Helper()
	j.settle()
	for _, t := range j.shadow.tiers {
		if t.live {
			j.compareTier(t)
		}
	}
	for range j.opt.Asks {
		q := randomAsk(j.rnd, names, j.spot)
		if t := j.someTier(); t != nil && t.live && j.rnd.IntN(2) == 0 {
			q.suit(j.rnd, t)
		}
		j.ask(q)
	}
	for range j.opt.Asks / 2 {
		j.expression(randomExpression(j.rnd, names, j.spot))
	}
}

func key(s series, start int64) string { return fmt.Sprintf("%s %q %d", s.measurement, s.tags, start) }

// sketches returns the numbers of distinct values that the sketches of a target say, by row and
// field.
func (j *Judge) sketches(t *tier) map[string]any {
	j.t.Helper()
	out := map[string]any{}
	for _, field := range []string{"f", "i", "s"} {
		if !slices.ContainsFunc(t.definitions, func(d definition) bool { return slices.Contains(d.columns(field), "distinct") }) {
			continue
		}
		// Rows are in windows of ten seconds of their own.
		for _, s := range j.must(fmt.Sprintf("SELECT count_hll(merge_hll(distinct_%s)) FROM %s./.*/ GROUP BY time(10s), a, b, c fill(none)", field, t.into)).Series {
			for _, row := range s.Values {
				out[key(series{s.Name, [3]string{s.Tags["a"], s.Tags["b"], s.Tags["c"]}}, integer(row[0]))+field] = row[1]
			}
		}
	}
	return out
}

// compareTier compares the rows of a target.
func (j *Judge) compareTier(t *tier) {
	j.t.Helper()
	want, got, rows := map[string]string{}, map[string]string{}, map[string]*row{}
	for _, r := range j.shadow.rows(t) {
		rows[key(r.series, r.start)] = r
		d, _ := t.at(r.start)
		var list []string
		for field, a := range r.fields {
			for _, c := range d.columns(field) {
				v, ok := columnValue(c, field, a)
				if ok {
					list = append(list, fmt.Sprintf("%s_%s=%s", c, field, v))
				}
			}
		}
		if len(list) > 0 {
			slices.Sort(list)
			want[key(r.series, r.start)] = strings.Join(list, " ")
		}
	}
	sketches := j.sketches(t)
	for _, s := range j.must(fmt.Sprintf("SELECT * FROM %s./.*/ GROUP BY a, b, c", t.into)).Series {
		of := series{s.Name, [3]string{s.Tags["a"], s.Tags["b"], s.Tags["c"]}}
		for _, row := range s.Values {
			at := integer(row[0])
			d, _ := t.at(at)
			var list []string
			for i, name := range s.Columns {
				column, field, _ := strings.Cut(name, "_")
				if i == 0 || row[i] == nil || !slices.Contains(d.columns(field), column) {
					continue
				}
				switch r := rows[key(of, at)]; {
				case column == "distinct":
					row[i] = sketches[key(of, at)+field]
				case column == "percentile" && r != nil && r.fields[field] != nil:
					row[i] = ranked(row[i], r.fields[field])
				}
				list = append(list, name+"="+cellText(row[i]))
			}
			slices.Sort(list)
			if len(list) > 0 {
				got[key(of, at)] = strings.Join(list, " ")
			}
		}
	}
	if d := difference(got, want); d != "" {
		j.fatalf("the target %s, %+v, what expired %v\n%s", t.into, t.definitions, j.shadow.expired, d)
	}
}

// difference returns how two maps differ.
func difference(got, want map[string]string) string {
	var lines []string
	for k, w := range want {
		if got[k] != w {
			lines = append(lines, fmt.Sprintf("%s has %q, want %q", k, got[k], w))
		}
	}
	for k, g := range got {
		if want[k] == "" {
			lines = append(lines, fmt.Sprintf("%s has %q, want nothing", k, g))
		}
	}
	slices.Sort(lines)
	return strings.Join(lines[:min(20, len(lines))], "\n")
}

func cellText(v any) string {
	if n, ok := v.(json.Number); ok {
		f, _ := n.Float64()
		return fmt.Sprintf("%.9g", f)
	}
	return fmt.Sprint(v)
}

func integer(v any) int64 {
	n, _ := v.(json.Number)
	i, _ := n.Int64()
	return i
}

var fromTier = regexp.MustCompile(`are from the downsample (\w+),`)

// ask compares an answer.
func (j *Judge) ask(q *ask) {
	j.t.Helper()
	j.counts["asks"]++
	r := j.must(q.String())
	got := answer{}
	for _, s := range r.Series {
		g := s.Name
		for _, i := range q.by {
			g += "," + s.Tags[tagNames[i]]
		}
		for _, row := range s.Values {
			c := cells{at: integer(row[0])}
			for _, v := range row[1:] {
				if n, ok := v.(json.Number); ok {
					f, _ := n.Float64()
					c.values = append(c.values, f)
				} else {
					c.values = append(c.values, v)
				}
			}
			got[g] = append(got[g], c)
		}
	}
	want, used, may, must, silent := j.shadow.answers(q, j.opt.Complete)
	j.counts["estimates"] += want.accept(got)
	if got, want := got.text(), want.text(); got != want {
		j.fatalf("%s\nhas\n%s\nwant\n%s\nof %v, what expired %v, messages %v", q, got, want, may, j.shadow.expired, r.Messages)
	}
	told := false
	for _, m := range r.Messages {
		if match := fromTier.FindStringSubmatch(m.Text); match != nil {
			if !may[match[1]] {
				j.fatalf("%s: %s, want of %v", q, m.Text, may)
			}
			delete(used, match[1])
		}
		told = told || strings.Contains(m.Text, " are lost, and the downsample ")
	}
	if len(used) > 0 {
		j.fatalf("%s: no hint says that rows are from %v: %v", q, used, r.Messages)
	}
	if told && !silent || must && !told {
		j.fatalf("%s: a hint says that rows are missing: %t, want %t: %v", q, told, silent, r.Messages)
	}
	if len(may) > 0 {
		j.counts["asks of downsamples"]++
	}
	if silent {
		j.counts["asks that tell what is missing"]++
	}
}
