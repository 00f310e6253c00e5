package judge

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// steps are what a Judge does. do returns false if there was nothing to do.
var steps = []struct {
	name   string
	weight int
	do     func(*Judge) bool
}{
	{"write", 24, (*Judge).stepWrite},
	{"compare", 12, func(j *Judge) bool { j.say("compare"); j.compare(); return true }},
	{"create", 4, (*Judge).stepCreate},
	{"alter", 3, (*Judge).stepAlter},
	{"recreate", 2, (*Judge).stepRecreate},
	{"expire", 4, (*Judge).stepExpire},
	{"keep", 1, (*Judge).stepKeep},
	{"delete", 4, (*Judge).stepDelete},
	{"drop series", 2, (*Judge).stepDrop},
	{"move", 6, (*Judge).stepMove},
	{"crash", 1, func(j *Judge) bool { j.say("crash"); j.server.Crash(); j.server.Start(); return true }},
	{"restart", 1, func(j *Judge) bool { j.say("restart"); j.server.Restart(); return true }},
	{"restore", 1, func(j *Judge) bool { j.say("restore"); j.server.Restore(); return true }},
}

// stepWrite writes rows, some of them again.
func (j *Judge) stepWrite() bool {
	var lines []string
	oldest := j.oldest()
	for range 1 + j.rnd.IntN(40) {
		p := &point{series: series{measurement: j.pick(names...), tags: [3]string{j.pick("", "x", "y", "z"), j.pick("", "u", "v"), ""}}, at: j.spot() / 1e6 * 1e6, fields: map[string]value{}}
		if p.at < oldest {
			continue
		}
		if old := j.shadow.points[p.at]; old != nil {
			p = old
		} else if j.rnd.IntN(5) == 0 {
			for _, at := range sortedTimes(j.shadow.points) {
				if at >= oldest && j.rnd.IntN(len(j.shadow.points)) < 3 {
					p = j.shadow.points[at]
					break
				}
			}
		}
		for len(p.fields) == 0 || j.rnd.IntN(3) == 0 {
			field := j.pick("f", "f", "i", "s")
			switch field {
			case "s":
				p.fields[field] = value{text: j.pick("p", "q", "r")}
			case "i":
				p.fields[field] = value{number: float64(j.rnd.IntN(100) - 30)}
			default:
				p.fields[field] = value{number: float64(j.rnd.IntN(400)-100) / 4}
			}
		}
		j.shadow.points[p.at] = p
		line := p.measurement
		for i, v := range p.tags {
			if v != "" {
				line += "," + tagNames[i] + "=" + v
			}
		}
		var fields []string
		for field, v := range p.fields {
			switch field {
			case "s":
				fields = append(fields, fmt.Sprintf("s=%q", v.text))
			case "i":
				fields = append(fields, fmt.Sprintf("i=%di", int64(v.number)))
			default:
				fields = append(fields, fmt.Sprintf("f=%g", v.number))
			}
		}
		lines = append(lines, fmt.Sprintf("%s %s %d", line, strings.Join(fields, ","), p.at))
	}
	if len(lines) == 0 {
		return false
	}
	j.say("write %d rows", len(lines))
	text := strings.Join(lines, "\n")
	if j.rnd.IntN(20) == 0 {
		j.killed(func() { _ = j.write(text) })
	}
	if err := j.write(text); err != nil {
		j.fatalf("write: %v\n%s", err, text)
	}
	return true
}

func sortedTimes(points map[int64]*point) []int64 {
	out := make([]int64, 0, len(points))
	for at := range points {
		out = append(out, at)
	}
	slices.Sort(out)
	return out
}

// choose returns some of a list.
func (j *Judge) choose(list ...string) (out []string) {
	for len(out) == 0 {
		for _, v := range list {
			if j.rnd.IntN(2) == 0 {
				out = append(out, v)
			}
		}
	}
	return out
}

var allFunctions = []string{"count", "sum", "mean", "min", "max", "spread", "first", "last"}

// stepCreate makes the next downsample.
func (j *Judge) stepCreate() bool {
	n := len(j.shadow.tiers)
	if n == 4 {
		return false
	}
	t := &tier{into: fmt.Sprintf("t%d", n+1), from: raw, keeps: [3]bool{true, true, true}}
	d := definition{functions: j.choose(allFunctions...)}
	if j.rnd.IntN(2) == 0 { // series that become one can be folded
		d.functions = j.choose("count", "sum", "mean", "min", "max", "spread")
	}
	switch n {
	case 0:
		d.every = []int64{10, 20, 30}[j.rnd.IntN(3)]
	case 1:
		d.every = []int64{60, 70}[j.rnd.IntN(2)]
	case 2: // a chain
		source := j.shadow.tier("t1")
		t.from, t.keeps = "t1", source.keeps
		if d.functions = j.foldable(source, d.functions); len(d.functions) == 0 {
			t.from, t.keeps = raw, [3]bool{true, true, true}
			d.functions = []string{"count"}
		}
		d.every = 60
	case 3:
		d.every = []int64{30, 120}[j.rnd.IntN(2)]
		t.takes = j.pick("./m[01]/", ".m0")
	}
	d.every *= second
	if t.from == raw || j.rnd.IntN(2) == 0 {
		source := t.keeps
		switch j.rnd.IntN(5) {
		case 0:
			t.tags, t.keeps = " GROUP BY ()", [3]bool{}
		case 1:
			if source[0] {
				t.tags, t.keeps = " GROUP BY a", [3]bool{true, false, false}
			}
		case 2:
			t.tags, t.keeps[1] = " WITHOUT (b)", false
		case 3:
			t.tags, t.keeps[0] = " WITHOUT (a)", false
		}
	}
	if err := j.change(t.create(&d)); err != nil {
		j.fatalf("%s: %v", t.create(&d), err)
	}
	j.shadow.create(t, d)
	return true
}

// create returns the statement that makes a tier.
func (t *tier) create(d *definition) string {
	return fmt.Sprintf("CREATE DOWNSAMPLE ON d FROM %s%s INTO %s EVERY %ds%s AS %s", t.from, t.takes, t.into, d.every/second, t.tags, strings.Join(d.functions, ", "))
}

// foldable returns which functions a chain can have of its source.
func (j *Judge) foldable(source *tier, functions []string) []string {
	return slices.DeleteFunc(slices.Clone(functions), func(f string) bool {
		return slices.ContainsFunc(columnsOf(f), func(c string) bool {
			return slices.ContainsFunc(source.definitions, func(d definition) bool { return !slices.Contains(d.columns(), c) })
		})
	})
}

// fits reports whether a tier may have definitions: chains above and below it go on.
func (j *Judge) fits(t *tier) bool {
	has := func(source, t *tier) bool {
		for i := range t.definitions {
			d := &t.definitions[i]
			if len(j.foldable(source, d.functions)) < len(d.functions) {
				return false
			}
			for k := range source.definitions {
				if d.every%source.definitions[k].every != 0 {
					return false
				}
			}
		}
		return true
	}
	for i := range t.definitions {
		if len(t.definitions[i].functions) == 0 {
			return false
		}
	}
	if t.from != raw && !has(j.shadow.tier(t.from), t) {
		return false
	}
	return !slices.ContainsFunc(j.shadow.tiers, func(o *tier) bool { return o.from == t.into && !has(t, o) })
}

func (j *Judge) someTier() *tier {
	if len(j.shadow.tiers) == 0 {
		return nil
	}
	return j.shadow.tiers[j.rnd.IntN(len(j.shadow.tiers))]
}

// stepAlter changes a downsample.
func (j *Judge) stepAlter() bool {
	t := j.someTier()
	if t == nil {
		return false
	}
	after := *t
	after.definitions = slices.Clone(t.definitions)
	text := fmt.Sprintf("ALTER DOWNSAMPLE ON d FROM %s INTO %s", t.from, t.into)
	next := *t.current()
	if j.rnd.IntN(2) == 0 {
		next.every = []int64{10, 20, 30, 60, 70, 120}[j.rnd.IntN(6)] * second
		text += fmt.Sprintf(" EVERY %ds", next.every/second)
	}
	add, drop := j.pick(allFunctions...), j.pick(allFunctions...)
	if j.rnd.IntN(2) == 0 && !slices.Contains(next.functions, add) {
		text += " ADD " + add
	} else {
		add = ""
	}
	if j.rnd.IntN(3) == 0 && slices.Contains(next.functions, drop) && len(next.functions) > 1 && add != drop {
		text += " DROP " + drop
		for i := range after.definitions {
			d := &after.definitions[i]
			d.functions = slices.DeleteFunc(slices.Clone(d.functions), func(f string) bool { return f == drop })
		}
		next.functions = after.current().functions
	}
	if add != "" {
		next.functions = append(slices.Clone(next.functions), add)
	}
	if strings.HasSuffix(text, t.into) {
		return false
	}
	if now := after.current(); next.every != now.every || !slices.Equal(next.functions, now.functions) {
		j.shadow.follow(&after, next)
	}
	fits := j.fits(&after)
	err := j.change(text)
	switch {
	case err == nil && !fits:
		j.fatalf("%s: no error, want one: %+v", text, after.definitions)
	case err != nil && fits:
		j.fatalf("%s: %v", text, err)
	case err != nil:
		j.say("  refused: %v", err)
		return false
	}
	*t = after
	lost := j.shadow.lost(t)
	t.frozen = slices.DeleteFunc(slices.Clone(t.frozen), func(r *row) bool { return r.start >= lost })
	return true
}

// stepRecreate drops a downsample and makes another one of its rows.
func (j *Judge) stepRecreate() bool {
	t := j.someTier()
	if t == nil || slices.ContainsFunc(j.shadow.tiers, func(o *tier) bool { return o.from == t.into }) {
		return false
	}
	after := *t
	next := definition{every: t.current().every, functions: j.choose(allFunctions...)}
	if j.rnd.IntN(2) == 0 {
		next.every = []int64{10, 20, 30, 60, 70, 120}[j.rnd.IntN(6)] * second
	}
	if t.from != raw {
		if next.functions = j.foldable(j.shadow.tier(t.from), next.functions); len(next.functions) == 0 {
			return false
		}
	}
	j.shadow.follow(&after, next)
	if !j.fits(&after) {
		return false
	}
	j.settle()
	if err := j.change(fmt.Sprintf("DROP DOWNSAMPLE ON d FROM %s INTO %s", t.from, t.into)); err != nil {
		j.fatalf("%v", err)
	}
	j.shadow.drop(t)
	switch j.rnd.IntN(3) {
	case 0:
		j.stepWrite()
	case 1:
		j.stepExpire()
	}
	if err := j.change(t.create(&next)); err != nil {
		j.fatalf("%s: %v", t.create(&next), err)
	}
	j.shadow.create(t, next)
	return true
}

// stepExpire gives raw, or a target, a shorter life, so that shard groups expire.
func (j *Judge) stepExpire() bool {
	policy := raw
	if j.rnd.IntN(4) == 0 && !j.opt.Complete {
		policy = "t1" // its life ends before what raw has lost
	}
	end := j.shadow.expired[policy]
	if end == 0 {
		end = j.base
	}
	end += (1 + j.rnd.Int64N(2)) * group
	if end > j.base+10*group || policy != raw && end+group > j.shadow.expired[raw] {
		return false
	}
	j.settle()
	life := time.Duration(floor(time.Now().UnixNano()-end-1800*second, second))
	var gone [][2]int64
	for _, g := range j.groups(policy) {
		if g[1] <= end {
			gone = append(gone, g)
		}
	}
	if err := j.change(fmt.Sprintf("ALTER RETENTION POLICY %s ON d DURATION %ds", policy, int64(life/time.Second))); err != nil {
		j.fatalf("a shorter life: %v", err)
	}
	j.cutoff[policy] = life
	j.await("shard groups do not expire", func() error {
		for _, g := range j.groups(policy) {
			if g[1] <= end {
				return fmt.Errorf("%v", g)
			}
		}
		return nil
	})
	j.say("  %d shard groups of %s gone, until %d", len(gone), policy, end)
	if len(gone) > 0 {
		j.shadow.expire(policy, gone)
	}
	return true
}

// stepKeep lets raw keep rows for longer.
func (j *Judge) stepKeep() bool {
	if j.cutoff[raw] == 0 {
		return false
	}
	if err := j.change("ALTER RETENTION POLICY raw ON d DURATION INF"); err != nil {
		j.fatalf("a longer life: %v", err)
	}
	j.cutoff[raw] = 0
	return true
}

// someSeries returns a condition on tags as statements of deletes and moves have it.
func (j *Judge) someSeries() *condition {
	i := []int{0, 2, 3, 4, 5}[j.rnd.IntN(5)]
	return &conditions[i]
}

// stepDelete deletes rows of raw or of a target.
func (j *Judge) stepDelete() bool {
	policy := raw
	if t := j.someTier(); t != nil && j.rnd.IntN(3) == 0 {
		policy = t.into
		j.settle()
	}
	m, where := j.pick(names...), j.someSeries()
	var list []string
	lo, hi := int64(always), int64(never)
	if where.text != "" {
		list = append(list, where.text)
	}
	if j.rnd.IntN(3) > 0 || len(list) == 0 {
		lo = j.spot()
		hi = min(lo+j.rnd.Int64N(2*group), j.spot())
		list = append(list, fmt.Sprintf("time >= %d AND time < %d", lo, hi))
	}
	text := fmt.Sprintf("DELETE FROM %s.%s WHERE %s", policy, m, strings.Join(list, " AND "))
	if err := j.change(text); err != nil {
		j.fatalf("%s: %v", text, err)
	}
	j.shadow.erase(func(p string) bool { return p == policy }, func(s series, at int64) bool {
		return s.measurement == m && lo <= at && at < hi && where.ok(s.tags)
	})
	return true
}

// stepDrop drops series or a measurement, of all policies.
func (j *Judge) stepDrop() bool {
	m, where := j.pick(names...), j.someSeries()
	text := "DROP MEASUREMENT " + m
	if where.text != "" {
		text = fmt.Sprintf("DROP SERIES FROM %s WHERE %s", m, where.text)
	} else if j.rnd.IntN(3) > 0 {
		return false
	}
	j.settle()
	if err := j.change(text); err != nil {
		j.fatalf("%s: %v", text, err)
	}
	j.shadow.erase(func(string) bool { return true }, func(s series, _ int64) bool { return s.measurement == m && where.ok(s.tags) })
	return true
}

// stepMove gives series other names.
func (j *Judge) stepMove() bool {
	m, where := j.pick(names...), &conditions[0]
	if j.rnd.IntN(2) == 0 {
		where = j.someSeries()
	}
	cond := ""
	if where.text != "" {
		cond = " WHERE " + where.text
	}
	var text string
	var change func(s *series, keeps [3]bool)
	named := false // a downsample names the tag, which is refused
	switch j.rnd.IntN(6) {
	case 0, 1:
		i := j.rnd.IntN(3)
		text = fmt.Sprintf("UPDATE %s DROP TAG %s", m, tagNames[i])
		change = func(s *series, _ [3]bool) { s.tags[i] = "" }
	case 2, 3:
		i := j.rnd.IntN(2)
		v := [2]string{"x", "u"}[i]
		text = fmt.Sprintf("UPDATE %s SET %s = '%s'", m, tagNames[i], v)
		change = func(s *series, keeps [3]bool) {
			if keeps[i] {
				s.tags[i] = v
			}
		}
	case 4:
		text, cond, where = fmt.Sprintf("ALTER MEASUREMENT %s RENAME TAG a TO c", m), "", &conditions[0]
		change = func(s *series, _ [3]bool) {
			if s.tags[0] != "" {
				s.tags[0], s.tags[2] = "", s.tags[0]
			}
		}
		for _, t := range j.shadow.tiers {
			named = named || strings.Contains(t.tags, "(a)") || strings.HasSuffix(t.tags, " a")
		}
	default:
		other := j.pick(names...)
		// A target keeps the rows that are moved to a measurement that the downsample does not
		// take, as they are.
		if other == m || slices.ContainsFunc(j.shadow.tiers, func(t *tier) bool { return t.takesMeasurement(m) && !t.takesMeasurement(other) }) {
			return false
		}
		text, cond, where = fmt.Sprintf("ALTER MEASUREMENT %s RENAME TO %s", m, other), "", &conditions[0]
		change = func(s *series, _ [3]bool) { s.measurement = other }
	}
	j.settle()
	text += cond
	_, err := j.query(j.say("%s", text))
	if err != nil {
		switch said := err.Error(); {
		case strings.Contains(said, "not found") || strings.Contains(said, "already"): // nothing to rename, or c is there
			j.say("  %v", err)
			return false
		case strings.Contains(said, "cannot be folded"):
		case named && strings.Contains(said, "downsample"):
			return false
		default:
			j.fatalf("%s: %v", text, err)
		}
	}
	unfoldable := j.shadow.move(func(s series, keeps [3]bool) series {
		if s.measurement == m && where.ok(s.tags) {
			change(&s, keeps)
		}
		return s
	})
	switch {
	case err != nil && unfoldable == "":
		j.fatalf("%s: %v, want no error", text, err)
	case err == nil && unfoldable != "":
		j.fatalf("%s: no error, but values of %s met", text, unfoldable)
	case err != nil:
		j.say("  %v", err)
		j.counts["moves refused"]++
		return false
	}
	return true
}
