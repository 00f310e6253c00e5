package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"

	"tsdbd/internal/testkit/load"
)

// yearSteps is a year of rows of each host of devops.
const yearSteps = 365 * 24 * 3600 / load.DevopsInterval

const (
	yearQuestions = 5  // of each kind
	yearDays      = 20 // of one series
	yearCache     = 64 << 20
	localLimit    = 100 << 20
	dayLimit      = 2 // requests
	scanLimit     = 1.2
	fetchLimit    = 2.0
)

// yearFigures are what the questions of a year cost while its files are local.
type yearFigures struct {
	kinds []coldSum
	scans []coldSum
}

// year loads a year of devops, brings it to the store, and asks.
func (c *coldRun) year(ctx context.Context) error {
	c.say("year: make the rows")
	w := devops{load.NewDevops(load.DevopsHosts, max(7*24*360, int(c.scale*yearSteps)))}
	b := &yearBench{coldRun: c, devops: w}
	c.say("year: load %d rows", w.rows())
	if err := c.with(ctx, nil, func(_ *process, t *target) error { return c.load(ctx, t, w) }); err != nil {
		return err
	}
	c.say("year: ask while the files are local")
	if err := c.with(ctx, nil, func(_ *process, t *target) error { return b.askWarm(ctx, t) }); err != nil {
		return err
	}
	c.say("year: bring the shards to the store")
	if err := c.with(ctx, c.store.env("year", "64MiB"), func(s *process, t *target) error { return c.chill(ctx, s, t) }); err != nil {
		return err
	}
	c.say("year: ask with a cache of 64 MiB")
	if err := c.with(ctx, c.store.env("year", "64MiB"), func(s *process, t *target) error { return b.askCold(ctx, s, t) }); err != nil {
		return err
	}
	c.say("year: read all of it")
	return b.scan(ctx)
}

// yearBench asks about a year.
type yearBench struct {
	*coldRun
	devops
	warm   yearFigures
	totals [][len(load.DevopsFields)]total // by host, once they are counted
}

// askWarm asks what is asked of cold shards later.
func (b *yearBench) askWarm(ctx context.Context, t *target) error {
	for _, q := range b.queries() {
		got, err := b.asks(ctx, t, sample5(q), 2)
		if err != nil {
			return err
		}
		b.warm.kinds = append(b.warm.kinds, sumOf(got[1]))
	}
	for _, columns := range scanColumns {
		got, err := b.asks(ctx, t, []question{b.byHour(columns)}, 1+scanRounds)
		if err != nil {
			return err
		}
		b.warm.scans = append(b.warm.scans, least(got[1:]))
	}
	return nil
}

// sample5 returns some questions of a kind, the same ones every time.
func sample5(q query) (out []question) {
	r := rand.New(rand.NewPCG(838, 16))
	for range yearQuestions {
		out = append(out, q.ask(r))
	}
	return out
}

func flat(asked [][]coldAsked) (out []coldAsked) {
	for _, a := range asked {
		out = append(out, a...)
	}
	return out
}

// askCold asks all kinds of questions of cold shards.
func (b *yearBench) askCold(ctx context.Context, s *process, t *target) error {
	objects, err := b.objectBytes(ctx)
	if err != nil {
		return err
	}
	d := diskOf(s.dir)
	b.report.section("A year of devops", fmt.Sprintf(`%d hosts of the devops workload (%d rows of 10 integers, every 10 s) in shards of a week, all in the store: %s MiB
of objects. Every answer is checked.`, b.Hosts(), b.rows(), mib(objects)))
	b.report.table([]string{"on the local disk", "MiB"}, [][]string{
		{"tails", mib(d.files[".tail"])},
		{"index (TSI)", mib(d.files[".tsi"])},
		{"log", mib(d.log)},
		{"manifests, series, catalog and the rest", mib(d.local() - d.log - d.files[".tail"] - d.files[".tsi"])},
		{"all of it", mib(d.local())},
	})
	b.report.bar(d.local() <= localLimit, "local disk for a year in the store, without the cache", "100 MiB", "%s MiB for %s MiB of objects", mib(d.local()), mib(objects))

	bound := b.watchCache(s.dir)
	anon := watch(t.pid)
	wrong, err := b.askAggregates(ctx, t)
	if err != nil {
		return err
	}
	n, err := b.askDays(ctx, t)
	if err != nil {
		return err
	}
	wrong += n
	if n, err = b.askKinds(ctx, t); err != nil {
		return err
	}
	wrong += n
	b.report.bar(wrong == 0, "answers over cold shards", "all right", "%d wrong", wrong)
	cache, peak := bound(), anon()
	b.report.bar(cache <= yearCache, "files of the cache, at most", "64 MiB", "%s MiB", mib(cache))
	fmt.Fprintf(&b.report.text, "\nWhile it answered all this the server had at most %s MiB of anonymous memory, and %s MiB resident with mapped files.\n", mib(peak), mib(usage(t.pid).peak))
	return nil
}

// objectBytes returns the size of all objects, as the server says.
func (b *yearBench) objectBytes(ctx context.Context) (int64, error) {
	t, err := b.store.measureTransfer(ctx, b.part)
	return t.Bytes, err
}

// askAggregates asks for aggregates of all time, which the tails answer.
func (b *yearBench) askAggregates(ctx context.Context, t *target) (wrong int, err error) {
	got, err := b.asks(ctx, t, []question{b.whole(1), b.whole(len(load.DevopsFields))}, 1)
	if err != nil {
		return 0, err
	}
	s := sumOf(got[0])
	b.report.bar(s.gets == 0, "requests of aggregates over whole chunks", "0", "%d by %d queries", s.gets, s.n)
	fmt.Fprintf(&b.report.text, "\nCount, sum, min, max, mean, first and last of the year by host, of one field and of ten: %d requests, %.0f and %.0f ms of CPU.\n", s.gets, ms(got[0][0].cpu), ms(got[0][1].cpu))
	return s.wrong, nil
}

// wholeCalls are what the statistics of chunks answer.
var wholeCalls = []string{"count", "sum", "min", "max", "mean", "first", "last"}

// whole asks for aggregates of the first fields by host.
func (b *yearBench) whole(fields int) question {
	text := ""
	for f := range fields {
		for _, call := range wholeCalls {
			if text != "" {
				text += ", "
			}
			text += call + "(" + load.DevopsFields[f] + ")"
		}
	}
	return question{text: "SELECT " + text + " FROM cpu GROUP BY hostname", check: func(a *answer) error {
		seen, err := b.byHost(a)
		if err != nil {
			return err
		}
		for host, s := range seen {
			if len(s.Values) != 1 {
				return fmt.Errorf("%v: %d rows, want 1", s.Tags, len(s.Values))
			}
			for f := range fields {
				if err := b.checkWhole(s, host, f); err != nil {
					return err
				}
			}
		}
		return nil
	}}
}

// total is what the statistics of chunks know of a field of a host.
type total struct{ sum, least, most int64 }

// countTotals goes through all values once, in the order in which they lie in memory.
func (b *yearBench) countTotals() [][len(load.DevopsFields)]total {
	out := make([][len(load.DevopsFields)]total, b.Hosts())
	for step := range b.Steps() {
		for host := range out {
			for f := range out[host] {
				x, v := &out[host][f], b.Value(host, step, f)
				if step == 0 {
					x.least = v
				}
				x.sum, x.least, x.most = x.sum+v, min(x.least, v), max(x.most, v)
			}
		}
	}
	return out
}

// checkWhole checks the aggregates of a field of a host.
func (b *yearBench) checkWhole(s *answerSeries, host, field int) error {
	if b.totals == nil {
		b.totals = b.countTotals()
	}
	x, at := &b.totals[host][field], 1+field*len(wholeCalls)
	for i, want := range []int64{int64(b.Steps()), x.sum, x.least, x.most} {
		if err := s.integer(0, at+i, want); err != nil {
			return err
		}
	}
	if err := s.float(0, at+4, float64(x.sum)/float64(b.Steps())); err != nil {
		return err
	}
	if err := s.integer(0, at+5, b.Value(host, 0, field)); err != nil {
		return err
	}
	return s.integer(0, at+6, b.Value(host, b.Steps()-1, field))
}

// askDays asks for all rows of some hosts and days, each twice.
func (b *yearBench) askDays(ctx context.Context, t *target) (wrong int, err error) {
	var questions []question
	r := rand.New(rand.NewPCG(838, 17))
	for range yearDays {
		questions = append(questions, b.day(r.IntN(b.Hosts()), r.IntN(b.Steps()/daySteps)))
	}
	got, err := b.asks(ctx, t, questions, 2)
	if err != nil {
		return 0, err
	}
	first, again := sumOf(got[0]), sumOf(got[1])
	b.report.bar(first.most <= dayLimit, "requests for all rows of one series and one day, which one file has", "2", "%d at most, %.2f on average of %d", first.most, float64(first.gets)/float64(first.n), first.n)
	b.report.bar(again.gets == 0, "the same again", "0", "%d", again.gets)
	return first.wrong + again.wrong, nil
}

const daySteps = 24 * 3600 / load.DevopsInterval

// day asks for all rows of a host on a day.
func (b *yearBench) day(host, day int) question {
	first := day * daySteps
	text := fmt.Sprintf("SELECT * FROM cpu WHERE hostname = 'host_%d' AND %s", host, bounds(load.DevopsTime(first), load.DevopsTime(first+daySteps)))
	return question{text: text, check: func(a *answer) error {
		s, err := a.one()
		if err != nil {
			return err
		}
		if len(s.Values) != daySteps {
			return fmt.Errorf("%d rows, want %d", len(s.Values), daySteps)
		}
		for row := range s.Values {
			id, _, err := b.wholeRow(s, row, host)
			if err != nil {
				return err
			}
			if id.step != first+row {
				return fmt.Errorf("row %d has step %d, want %d", row, id.step, first+row)
			}
		}
		return nil
	}}
}

// askKinds asks all kinds of questions of the workload, each twice.
func (b *yearBench) askKinds(ctx context.Context, t *target) (wrong int, err error) {
	var rows [][]string
	for i, q := range b.queries() {
		got, err := b.asks(ctx, t, sample5(q), 2)
		if err != nil {
			return 0, err
		}
		one, two := sumOf(got[0]), sumOf(got[1])
		wrong += one.wrong + two.wrong
		rows = append(rows, []string{
			q.name, fmt.Sprintf("%.1f", float64(one.gets)/float64(one.n)), fmt.Sprint(one.most), mib(int64(one.bytesEach)), fmt.Sprint(two.most),
			fmt.Sprintf("%.2f", b.warm.kinds[i].cpuEach), fmt.Sprintf("%.2f", one.cpuEach), fmt.Sprintf("%.2f", two.cpuEach), fmt.Sprint(one.wrong + two.wrong),
		})
	}
	fmt.Fprintf(&b.report.text, "\n%d questions of each kind with random hosts and times, each asked twice in a row, with a cache of 64 MiB. CPU is that of one.\n", yearQuestions)
	b.report.table([]string{"query", "requests, mean", "most", "MiB", "most, again", "CPU ms, files local", "cold", "cold, again", "wrong"}, rows)
	return wrong, nil
}

// scanColumns are how many fields the scans read.
var scanColumns = []int{1, len(load.DevopsFields)}

// scanRounds is how often a scan is measured.
const scanRounds = 3

// byHour asks for means of some fields by the hour: of windows shorter than chunks, so that all rows are
// decoded.
func (b *yearBench) byHour(fields int) question {
	from, to := load.DevopsTime(0), load.DevopsTime(b.Steps())
	return question{
		text: "SELECT " + calls("mean", fields) + " FROM cpu WHERE " + bounds(from, to) + " GROUP BY time(1h)",
		check: func(a *answer) error {
			s, err := a.one()
			if err != nil {
				return err
			}
			return s.windows(from, to, hour, func(row int, from, to int64) error {
				first, last := b.Between(from, to)
				for f := range fields {
					sum := int64(0)
					for step := first; step < last; step++ {
						for h := range b.Hosts() {
							sum += b.Value(h, step, f)
						}
					}
					if err := s.float(row, f+1, float64(sum)/float64((last-first)*b.Hosts())); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
}

// scan reads all of the year through an empty cache that holds all, then from the full cache, and
// then through one that is too small.
func (b *yearBench) scan(ctx context.Context) error {
	moved, err := b.store.measureTransfer(ctx, b.part)
	if err != nil {
		return err
	}
	var rows [][]string
	for i, columns := range scanColumns {
		if err := os.RemoveAll(filepath.Join(b.dir, "data", coldCache)); err != nil {
			return err
		}
		var got [][]coldAsked
		err := b.with(ctx, b.store.env(b.part, "16GiB"), func(_ *process, t *target) (err error) {
			// The first question after a start pays for more than what it reads.
			if _, err = b.asks(ctx, t, []question{b.whole(columns)}, 1); err == nil {
				got, err = b.asks(ctx, t, []question{b.byHour(columns)}, 2+scanRounds)
			}
			return err
		})
		if err != nil {
			return err
		}
		var small [][]coldAsked
		err = b.with(ctx, b.store.env(b.part, "64MiB"), func(_ *process, t *target) (err error) {
			small, err = b.asks(ctx, t, []question{b.byHour(columns)}, 1)
			return err
		})
		if err != nil {
			return err
		}
		warm, store, full, less := b.warm.scans[i], sumOf(got[0]), least(got[2:]), sumOf(small[0])
		share := float64(store.bytes) / float64(moved.Bytes)
		bytes, took := ms(moved.CPU)*share, ms(moved.Took)*share
		fetch, waits := (store.cpuEach-full.cpuEach)/bytes, (store.tookEach-full.tookEach)/took
		name := fmt.Sprintf("%d field", columns)
		if columns > 1 {
			name += "s"
		}
		rows = append(rows, []string{
			name, fmt.Sprintf("%.0f", warm.cpuEach), fmt.Sprintf("%.0f", full.cpuEach), fmt.Sprintf("%.2f", full.cpuEach/warm.cpuEach),
			fmt.Sprintf("%.0f", store.cpuEach), fmt.Sprintf("%.0f", bytes), fmt.Sprintf("%.2f", fetch),
			fmt.Sprintf("%.0f", full.tookEach), fmt.Sprintf("%.0f", store.tookEach), fmt.Sprintf("%.2f", waits),
			fmt.Sprint(store.gets), mib(store.bytes), mib(less.bytes), fmt.Sprintf("%.0f", less.cpuEach),
		})
		wrong := sumOf(flat(got)).wrong + less.wrong
		b.report.bar(wrong == 0, "scans of "+name+" through the cache", "all right", "%d wrong", wrong)
		b.report.bar(full.most == 0 && full.cpuEach <= scanLimit*warm.cpuEach, "CPU of a scan of "+name+" from a full cache, to one of local files", "1.2, no request", "%.2f, %d requests", full.cpuEach/warm.cpuEach, full.most)
		b.report.bar(waits <= fetchLimit, "time that a scan of "+name+" waits for the store, to the time of the transfer itself", "2", "%.2f", waits)
		b.report.bar(less.bytes <= moved.Bytes*21/20, "what a scan of "+name+" fetches through a cache of 64 MiB, to the objects", "1.05", "%.2f", float64(less.bytes)/float64(moved.Bytes))
	}
	b.report.section("Reading all of it", fmt.Sprintf(`Means by the hour over the year: all rows are decoded. CPU in ms, of one query, the least of three. The first query finds an empty
cache that holds all, the others a full one. "Transfer" is the CPU time in which another process gets
the same bytes with the same client in requests of 1 MiB, and throws them away: %s MiB in %d requests took %.2f s, %.0f ms of CPU. "Fetching" is what the
first query takes more than the others, and "waiting" the same of the time that passes. Then the same with a cache of 64 MiB.`, mib(moved.Bytes), moved.Gets, moved.Took.Seconds(), ms(moved.CPU)))
	b.report.table([]string{"scan", "local", "full cache", "full cache / local", "empty cache", "transfer", "fetching / transfer", "ms, full", "ms, empty", "waiting / transfer", "requests", "MiB", "MiB fetched, cache of 64 MiB", "CPU"}, rows)
	return nil
}
