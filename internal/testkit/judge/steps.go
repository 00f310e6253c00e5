package judge

import (
	"fmt"
	"slices"
	"strings"
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
	{"drop shard", 2, (*Judge).stepDropShard},
	{"move", 6, (*Judge).stepMove},
	{"crash", 1, func(j *Judge) bool { j.say("crash"); j.server.Crash(); j.server.Start(); return true }},
	{"power cut", 1, func(j *Judge) bool { j.say("power cut"); j.server.Cut(); j.server.Start(); return true }},
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

// Functions of downsamples. Those of the second list can be put together when series become one.
var (
	allFunctions  = []string{"count", "sum", "mean", "min", "max", "spread", "increase", "first", "last", "distinct", "percentile"}
	foldsOfSeries = []string{"count", "sum", "mean", "min", "max", "spread", "increase", "distinct", "percentile"}
)

func seconds(n int64) period { return period{every: n * second} }

// stepCreate makes the next downsample.
func (j *Judge) stepCreate() bool {
	n := len(j.shadow.tiers)
	if n == 5 || n == 4 && j.opt.Seed%2 == 0 { // windows of the calendar take time
		return false
	}
	t := &tier{into: fmt.Sprintf("t%d", n+1), from: raw, keeps: [3]bool{true, true, true}, where: conditions[0]}
	pool := allFunctions
	if j.rnd.IntN(2) == 0 {
		pool = foldsOfSeries
	}
	d := definition{functions: j.choose(pool...)}
	switch n {
	case 0:
		d.period = seconds([]int64{10, 20, 30}[j.rnd.IntN(3)])
	case 1:
		d.period = seconds([]int64{60, 70}[j.rnd.IntN(2)])
		t.name = "second"
	case 2:
		d.period = seconds(60)
		j.chain(t, &d, "t1")
	case 3:
		d.period = seconds([]int64{30, 120}[j.rnd.IntN(2)])
		t.takes = j.pick("./m[01]/", ".m0")
	case 4:
		d.period = calendars[1+j.rnd.IntN(len(calendars)-1)]
		t.name = j.pick("", "days")
		if source := j.shadow.tier(j.pick("t1", "t3")); j.rnd.IntN(2) == 0 {
			j.chain(t, &d, source.into)
		}
	}
	if t.from == raw && j.rnd.IntN(3) == 0 {
		for _, field := range []string{"f", "i"} {
			for _, f := range j.choose(pool...) {
				if j.rnd.IntN(3) == 0 {
					d.with = append(d.with, [2]string{field, f})
				}
			}
		}
		if len(d.with) > 0 && j.rnd.IntN(3) == 0 {
			d.functions = nil
		}
	}
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
	if t.from == raw && j.rnd.IntN(6) == 0 {
		t.where = *j.someSeries()
	}
	if err := j.change(t.create(&d)); err != nil {
		j.fatalf("%s: %v", t.create(&d), err)
	}
	j.shadow.create(t, d, always)
	return true
}

// chain makes a tier one of the rows of another one, if there is a function for it.
func (j *Judge) chain(t *tier, d *definition, from string) {
	source := j.shadow.tier(from)
	if slices.ContainsFunc(source.definitions, func(o definition) bool { return !o.fills(d.period) }) {
		return
	}
	if functions := j.foldable(source, d.functions); len(functions) > 0 {
		t.from, t.keeps, d.functions = from, source.keeps, functions
	}
}

// create returns the statement that makes a tier.
func (t *tier) create(d *definition) string {
	var with []string
	for _, w := range d.with {
		with = append(with, w[0]+" "+w[1])
	}
	text := strings.TrimSpace("CREATE DOWNSAMPLE "+t.name) + " ON d FROM " + t.from + t.takes
	if len(with) > 0 {
		text += " WITH " + strings.Join(with, ", ")
	}
	text += " INTO " + t.into + " EVERY " + d.text() + d.tz() + t.tags
	if len(d.functions) > 0 {
		text += " AS " + strings.Join(d.functions, ", ")
	}
	if t.where.text != "" {
		text += " WHERE " + t.where.text
	}
	return text
}

// named returns how a statement names a tier.
func (j *Judge) named(t *tier) string {
	if t.name != "" && j.rnd.IntN(2) == 0 {
		return t.name + " ON d"
	}
	return fmt.Sprintf("ON d FROM %s INTO %s", t.from, t.into)
}

// foldable returns which functions a chain can have of its source.
func (j *Judge) foldable(source *tier, functions []string) []string {
	return slices.DeleteFunc(slices.Clone(functions), func(f string) bool {
		return slices.ContainsFunc(source.definitions, func(d definition) bool {
			return slices.ContainsFunc(allFields, func(field string) bool { return !containsAll(d.columns(field), columnsOf(f)) })
		})
	})
}

// fits reports whether a tier may have definitions: chains above and below it go on.
func (j *Judge) fits(t *tier) bool {
	has := func(source, t *tier) bool {
		for i := range t.definitions {
			d := &t.definitions[i]
			for k := range source.definitions {
				from := &source.definitions[k]
				if !from.fills(d.period) || slices.ContainsFunc(allFields, func(field string) bool { return !containsAll(from.columns(field), d.columns(field)) }) {
					return false
				}
			}
		}
		return true
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
	named := j.named(t)
	text := "ALTER DOWNSAMPLE " + named
	next, fits := *t.current(), true
	if j.rnd.IntN(2) == 0 {
		next.period = j.otherPeriod()
		text += " EVERY " + next.text() + next.tz()
	}
	add, drop := j.pick(allFunctions...), j.pick(allFunctions...)
	if j.rnd.IntN(2) == 0 && !slices.Contains(next.functions, add) {
		text += " ADD " + add
	} else {
		add = ""
	}
	if j.rnd.IntN(3) == 0 && slices.Contains(next.functions, drop) && len(next.functions)+len(next.with) > 1 && add != drop {
		text += " DROP " + drop
		for i := range after.definitions {
			d := &after.definitions[i]
			with := slices.DeleteFunc(slices.Clone(d.with), func(w [2]string) bool { return w[1] == drop })
			for _, w := range d.with { // a field would have no function of its own
				fits = fits && slices.ContainsFunc(with, func(left [2]string) bool { return left[0] == w[0] })
			}
			d.functions, d.with = slices.DeleteFunc(slices.Clone(d.functions), func(f string) bool { return f == drop }), with
		}
		next.functions, next.with = after.current().functions, after.current().with
		fits = fits && len(next.functions)+len(next.with) > 0
	}
	if add != "" {
		next.functions = append(slices.Clone(next.functions), add)
	}
	if strings.HasSuffix(text, named) {
		return false
	}
	if !next.equal(after.current()) {
		if at, ok := j.known(t); ok {
			j.shadow.follow(&after, next, at)
		} else {
			fits = false
		}
	}
	fits = fits && j.fits(&after)
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

func (j *Judge) otherPeriod() period {
	if j.rnd.IntN(6) == 0 && j.opt.Seed%2 == 1 {
		return calendars[1+j.rnd.IntN(len(calendars)-1)]
	}
	return seconds([]int64{10, 20, 30, 60, 70, 120}[j.rnd.IntN(6)])
}

// stepRecreate drops a downsample and makes another one of its rows.
func (j *Judge) stepRecreate() bool {
	t := j.someTier()
	if t == nil || slices.ContainsFunc(j.shadow.tiers, func(o *tier) bool { return o.from == t.into }) {
		return false
	}
	after := *t
	next := definition{period: t.current().period, functions: j.choose(allFunctions...)}
	if j.rnd.IntN(2) == 0 {
		next.period = j.otherPeriod()
	}
	if t.from != raw {
		if next.functions = j.foldable(j.shadow.tier(t.from), next.functions); len(next.functions) == 0 {
			return false
		}
	}
	j.settle()
	known, ok := j.known(t)
	if !ok {
		return false
	}
	j.shadow.follow(&after, next, known)
	if !j.fits(&after) {
		return false
	}
	if err := j.change("DROP DOWNSAMPLE " + j.named(t)); err != nil {
		j.fatalf("%v", err)
	}
	j.shadow.drop(t)
	switch j.rnd.IntN(3) {
	case 0:
		j.stepWrite()
	case 1:
		j.stepExpire()
	}
	if known, ok = j.known(t); !ok {
		j.fatalf("%s: rows that cannot be computed again have appeared", t.into)
	}
	if err := j.change(t.create(&next)); err != nil {
		j.fatalf("%s: %v", t.create(&next), err)
	}
	j.shadow.create(t, next, known)
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
		end = base
	}
	end += (1 + j.rnd.Int64N(2)) * span
	if end > base+12*span || policy != raw && end+span > j.shadow.expired[raw] {
		return false
	}
	j.settle()
	var gone []group
	for _, g := range j.groups(policy) {
		if g.end <= end {
			gone = append(gone, g)
		}
	}
	if err := j.live(policy, end); err != nil {
		j.fatalf("a shorter life: %v", err)
	}
	j.await("shard groups do not expire", func() error {
		for _, g := range j.groups(policy) {
			if g.end <= end {
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
	if _, ok := j.lives[raw]; !ok {
		return false
	}
	if err := j.change("ALTER RETENTION POLICY raw ON d DURATION INF"); err != nil {
		j.fatalf("a longer life: %v", err)
	}
	delete(j.lives, raw)
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
		hi = min(lo+j.rnd.Int64N(2*span), j.spot())
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

// stepDropShard drops a shard of raw or of a target.
func (j *Judge) stepDropShard() bool {
	policy := raw
	if t := j.someTier(); t != nil && j.rnd.IntN(3) == 0 {
		policy = t.into
	}
	j.settle()
	groups := j.groups(policy)
	if len(groups) == 0 {
		return false
	}
	g := groups[j.rnd.IntN(len(groups))]
	if err := j.change(fmt.Sprintf("DROP SHARD %d", g.shard)); err != nil {
		j.fatalf("%v", err)
	}
	j.shadow.erase(func(p string) bool { return p == policy }, func(_ series, at int64) bool { return g.holds(at) })
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
			named = named || strings.Contains(t.tags, "(a)") || strings.HasSuffix(t.tags, " a") || slices.Contains(t.where.tags, 0)
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
	err := j.change(text)
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
