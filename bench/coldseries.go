package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"tsdbd/internal/testkit/load"
)

const (
	// seriesRounds is how many rows each series has: so many that the store has them, and
	// more than a cache of 64 MiB holds.
	seriesRounds = 60
	seriesCache  = 64 << 20
	seriesMemory = 512 << 20
	restMemory   = 64 << 20
	restTime     = 5 * time.Second
)

// series brings a million series to the store, and asks for one and for all of them.
func (c *coldRun) series(ctx context.Context) error {
	w := hicard{load.NewHicard(max(1000, int(c.scale*load.HicardSeries)), seriesRounds)}
	c.say("series: load %d series of %d rows", w.Series(), w.Rounds())
	if err := c.with(ctx, nil, func(_ *process, t *target) error { return c.load(ctx, t, w) }); err != nil {
		return err
	}
	env := append(c.store.env("series", "64MiB"), fmt.Sprintf("GOMEMLIMIT=%d", seriesMemory))
	var rows [][]string
	row := func(what string, t *target, anon int64, s coldSum) {
		rows = append(rows, []string{what, mib(procField(t.pid, "status", "VmRSS:") << 10), mib(anon), fmt.Sprint(s.gets), mib(s.bytes), msText(s.cpu)})
	}
	rest := func(what string, t *target) int64 {
		time.Sleep(restTime)
		anon := usage(t.pid).anon
		row(what, t, anon, coldSum{})
		return anon
	}
	c.say("series: bring them to the store")
	err := c.with(ctx, env, func(s *process, t *target) error {
		if err := c.chill(ctx, s, t); err != nil {
			return err
		}
		rest("at rest, after the upload", t)
		return nil
	})
	if err != nil {
		return err
	}
	c.say("series: ask")
	return c.with(ctx, env, func(s *process, t *target) error {
		started := usage(t.pid).cpu
		atRest := rest("at rest, after a start", t)
		d, cache, most, wrong := diskOf(s.dir), c.watchCache(s.dir), int64(0), 0
		for _, q := range append([]query{always("one series", w.probe()), always("all rows above 50", w.above(50))}, w.queries()...) {
			anon := watch(t.pid)
			got, err := c.asks(ctx, t, []question{q.ask(nil)}, 1)
			peak := anon()
			if err != nil {
				return err
			}
			sum := sumOf(got[0])
			row(q.name, t, peak, sum)
			most, wrong = max(most, peak), wrong+sum.wrong
		}
		moved, err := c.store.measureTransfer(ctx, c.part)
		if err != nil {
			return err
		}
		c.report.section("A million series", fmt.Sprintf(`%d series of %d rows of one float (the hicard workload) in one shard that is in the store: %s MiB of objects, of which the server
has %s MiB as tails and %s MiB of index. Its memory limit is 512 MiB (GOMEMLIMIT), its cache 64 MiB. The start took %s ms of CPU. Resident is with
mapped files, which the system takes back when it needs the room; anonymous is the most during the query.`,
			w.Series(), w.Rounds(), mib(moved.Bytes), mib(d.files[".tail"]), mib(d.files[".tsi"]), msText(started)))
		c.report.table([]string{"", "MiB resident", "MiB anonymous", "requests", "MiB fetched", "CPU ms"}, rows)
		c.report.bar(wrong == 0, "answers over a million cold series", "all right", "%d wrong", wrong)
		c.report.bar(atRest <= restMemory, "anonymous memory at rest, a million cold series", "64 MiB", "%s MiB", mib(atRest))
		c.report.bar(most <= seriesMemory, "anonymous memory during queries of all of them", "512 MiB, the limit", "%s MiB", mib(most))
		size := cache()
		c.report.bar(size <= seriesCache, "files of the cache meanwhile, at most", "64 MiB", "%s MiB", mib(size))
		return nil
	})
}

// above asks how many values are above a bound, for which all rows are read.
func (h hicard) above(bound float64) question {
	n := int64(0)
	for round := range h.Rounds() {
		for i := range h.Series() {
			if h.Value(round, i) > bound {
				n++
			}
		}
	}
	return question{
		text:  strings.ReplaceAll("SELECT count(value) FROM m WHERE value > $", "$", fmt.Sprintf("%.1f", bound)),
		check: func(a *answer) error { return a.count(n) },
	}
}
