package downsample

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
)

// hourly returns a harness with an hourly downsample and rows of two measurements.
func hourly(t *testing.T) *harness {
	h := newHarness(t)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 1d")
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max")
	h.now = time.Unix(0, 0).Add(36 * time.Hour)
	return h
}

func (h *harness) round() {
	h.service.everyTime()
	h.service.round(context.Background())
}

// TestFailures: a measurement that fails keeps no other one back, is told, and is tried
// again.
func TestFailures(t *testing.T) {
	for name, prepare := range map[string]func(h *harness){
		"windows":           func(*harness) {},
		"all that is there": func(h *harness) { h.must("DROP DOWNSAMPLE ON d FROM raw INTO hours") },
	} {
		h := hourly(t)
		prepare(h)
		if err := h.load("raw", "bad f=1 3600\nbad f=1 50000\ngood f=2 3600\nzoo f=3 3600"); err != nil {
			t.Fatal(err)
		}
		if h.store.Catalog().Database("d").Downsample("hours") == nil {
			h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max")
		}
		h.fail = func(measurement string, _ int) error {
			if measurement == "bad" {
				return errors.New("no room for it")
			}
			return nil
		}
		for range 5 {
			h.round()
		}
		if got := len(h.contents("SELECT * FROM hours./.*/")); got != 2 {
			t.Errorf("%s: %d rows while one measurement fails", name, got)
		}
		progress := h.service.Progress()[h.store.Catalog().Database("d").Downsamples[0].ID]
		if !strings.Contains(progress.Err, "measurement bad, windows 1970-01-01T01:00:00Z to 1970-01-01T02:00:00Z: no room for it (failed 1 times, next at 1970-01-02T12:01:00Z)") ||
			progress.Waiting == 0 || progress.Failing == 0 || progress.Backfilled != 1 {
			t.Errorf("%s: %+v", name, progress)
		}
		if n := testutil.ToFloat64(gauge{h.service, failingDesc}); n != float64(progress.Failing) {
			t.Errorf("%s: %v windows failing, want %d", name, n, progress.Failing)
		}
		if n := testutil.ToFloat64(gauge{h.service, behindDesc}); n != 34*3600 && n != 35*3600 {
			t.Errorf("%s: %v seconds behind", name, n)
		}
		h.fail = nil
		h.now = h.now.Add(time.Hour)
		if err := h.settle(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := len(h.contents("SELECT * FROM hours./.*/")); got != 4 {
			t.Errorf("%s: %d rows", name, got)
		}
		if n := testutil.ToFloat64(gauge{h.service, waitingDesc}); n != 0 {
			t.Errorf("%s: %v windows waiting", name, n)
		}
	}
}

// TestDamagedSource: windows over points that damage has taken wait until the points are
// back, all others are computed. No window is computed, or emptied, from holes.
func TestDamagedSource(t *testing.T) {
	for name, windows := range map[string]bool{"windows": true, "all that is there": false} {
		h := hourly(t)
		if err := h.load("raw", "m f=1 3600\nm f=2 90000"); err != nil { // two days, two shards
			t.Fatal(err)
		}
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		before := h.contents("SELECT * FROM hours.m")
		// Half of the first day is gone, as it were; what is marked is written after that.
		h.lost = []scan.Loss{{Shard: 1, Range: model.TimeRange{Min: 0, Max: int64(24*time.Hour) - 1}, Path: "1.tsm"}}
		if windows {
			if err := h.load("raw", "m f=3 3601\nm f=4 90001"); err != nil {
				t.Fatal(err)
			}
		} else {
			h.must("DROP DOWNSAMPLE ON d FROM raw INTO hours; CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max")
		}
		for range 5 {
			h.round()
			h.now = h.now.Add(time.Minute)
		}
		now := h.contents("SELECT * FROM hours.m")
		if len(now) != len(before) {
			t.Errorf("%s: %q over damage, before it %q", name, now, before)
		}
		if text := fmt.Sprint(now); windows && (strings.Contains(text, "3") || !strings.Contains(text, "4")) {
			t.Errorf("%s: %s", name, text)
		}
		progress := h.service.Progress()[h.store.Catalog().Database("d").Downsamples[0].ID]
		if !strings.Contains(progress.Err, "points are missing in shard 1, 1970-01-01T00:00:00Z to 1970-01-01T23:59:59Z: damaged file set aside as 1.tsm") ||
			windows && progress.Waiting == 0 || !windows && progress.Backfilled == 1 {
			t.Errorf("%s: %+v", name, progress)
		}
		h.lost = nil
		h.now = h.now.Add(time.Hour)
		if err := h.settle(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if text := fmt.Sprint(h.contents("SELECT * FROM hours.m")); windows && !strings.Contains(text, "3") {
			t.Errorf("%s: healed: %s", name, text)
		}
	}
}

// TestManyFailures: however many windows fail, all others are computed, in their measurement
// and in others. Those that fail rest for longer and longer.
func TestManyFailures(t *testing.T) {
	h := hourly(t)
	h.now = h.now.Add(100 * time.Hour)
	var lines strings.Builder
	for i := range 60 { // with those below more than a visit may try
		fmt.Fprintf(&lines, "bad f=1 %d\n", i*3600)
	}
	for i := range 50 {
		fmt.Fprintf(&lines, "worse%d f=1 0\n", i)
	}
	lines.WriteString("good f=2 360000\n")
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	h.failAt = func(measurement string, at int64) error {
		if strings.HasPrefix(measurement, "worse") || measurement == "bad" && at/int64(time.Hour)%3 > 0 {
			return errors.New("no")
		}
		return nil
	}
	for range 5 {
		h.round()
	}
	if n := len(h.contents("SELECT * FROM hours./.*/")); n != 21 {
		t.Errorf("%d rows", n)
	}
	id := h.store.Catalog().Database("d").Downsamples[0].ID
	progress := h.service.Progress()[id]
	if progress.Failing != 90 || progress.Waiting != 90 || !strings.Contains(progress.Err, "; and 67 others") {
		t.Errorf("%+v", progress)
	}
	var pauses []time.Duration
	for range 6 {
		_, list := h.service.troubles(id)
		for _, x := range list {
			if x.tries != list[0].tries {
				t.Errorf("%+v beside %+v", x, list[0])
			}
		}
		pauses = append(pauses, list[0].again.Sub(h.now))
		h.round()
		if _, got := h.service.troubles(id); !slices.Equal(got, list) {
			t.Error("tried before it has rested")
		}
		h.now = list[0].again
		h.round()
		h.round()
	}
	minute := time.Minute
	if want := []time.Duration{minute, 2 * minute, 4 * minute, 8 * minute, 15 * minute, 15 * minute}; !slices.Equal(pauses, want) {
		t.Errorf("pauses %v, want %v", pauses, want)
	}
	h.failAt = nil
	h.now = h.now.Add(time.Hour)
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if n := len(h.contents("SELECT * FROM hours./.*/")); n != 111 {
		t.Errorf("%d rows in the end", n)
	}
}

// TestWholeFailure: if nothing can be computed, visits become rare.
func TestWholeFailure(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "m f=1 3600\nn f=1 3600"); err != nil {
		t.Fatal(err)
	}
	h.fail = func(string, int) error { return errors.New("the disk is full") }
	id := h.store.Catalog().Database("d").Downsamples[0].ID
	h.round()
	if wait := h.service.tasks[id].next.Sub(h.now); wait != time.Minute {
		t.Errorf("waits %v", wait)
	}
	if err := h.service.Progress()[id].Err; !strings.Contains(err, "the disk is full") || !strings.Contains(err, "measurement n") {
		t.Error(err)
	}
	// Another node computes: what failed here says nothing of it.
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	h.service.Run(ctx)
	if progress := h.service.Progress()[id]; progress.Err != "" || progress.Failing != 0 {
		t.Errorf("%+v", progress)
	}
}

// TestCompareMemory: rows that are compared are charged before they are taken.
func TestCompareMemory(t *testing.T) {
	h := hourly(t)
	h.memory = admission.NewMemory(600_000)
	h.crash(1)
	var lines, series strings.Builder
	for i := range 8000 {
		fmt.Fprintf(&lines, "m,a=%d max_f=1 3600\n", i)
	}
	series.WriteString("m f=1 3600\nm f=2 7200")
	if err := errors.Join(h.load("hours", lines.String()), h.load("raw", series.String())); err != nil {
		t.Fatal(err)
	}
	h.round()
	progress := h.service.Progress()[h.store.Catalog().Database("d").Downsamples[0].ID]
	if progress.Failing != 1 || !strings.Contains(progress.Err, admission.ErrMemory.Error()) {
		t.Errorf("%+v", progress)
	}
	if got := h.contents("SELECT max_f FROM hours.m WHERE time = 7200s"); len(got) != 1 {
		t.Errorf("the other window has %v", got)
	}
	if used := h.memory.Used(); used != 0 {
		t.Errorf("%d bytes are still charged", used)
	}
	h.memory.SetLimit(64 << 20)
	h.now = h.now.Add(time.Hour)
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := h.contents("SELECT max_f FROM hours.m"); len(got) != 2 {
		t.Errorf("%d rows", len(got))
	}
}

// TestForeignRows: what others write into the target while it is computed is made good.
func TestForeignRows(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "m,a=x f=1 3600\nm,a=y f=1 3600"); err != nil {
		t.Fatal(err)
	}
	once := false
	h.fail = func(string, int) error {
		if !once {
			once = true
			return h.load("hours", "m,a=z max_f=9 3600\nm,a=x max_f=7 7200")
		}
		return nil
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := h.contents("SELECT max_f FROM hours.m GROUP BY *"); !once || len(got) != 2 || got["m,a=x 1970-01-01T01:00:00Z"] != "max_f=1" {
		t.Errorf("%v", got)
	}
	// After an own write nothing is computed twice.
	computed := h.service.computed.Load()
	h.fail = nil
	if err := h.load("raw", "m,a=x f=5 3700"); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if n := h.service.computed.Load() - computed; n != 1 {
		t.Errorf("%d windows computed for one row", n)
	}
}

// TestLongWindows: so many windows are computed at once that together they would be longer
// than all time.
func TestLongWindows(t *testing.T) {
	h := hourly(t)
	h.must("CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1; DROP DOWNSAMPLE ON d FROM raw INTO hours")
	if err := h.load("raw", "m f=1 3600\nm f=2 90000"); err != nil {
		t.Fatal(err)
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO days EVERY 1d AS max")
	h.now = h.now.Add(96 * time.Hour)
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if err := h.load("raw", "m f=3 3700"); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := h.contents("SELECT * FROM days.m"); len(got) != 2 || got["m 1970-01-01T00:00:00Z"] != "max_f=3" {
		t.Errorf("%v", got)
	}
}

// TestTooMuch: windows that do not fit into memory, or into the time of a query, at once
// are computed a few at a time.
func TestTooMuch(t *testing.T) {
	for _, tooMuch := range []error{admission.ErrMemory, admission.ErrQueryTimeout} {
		h := hourly(t)
		if err := h.load("raw", "m f=1 3600\nm f=1 50000\nm f=2 90000\nm f=3 95000"); err != nil {
			t.Fatal(err)
		}
		h.must("DROP DOWNSAMPLE ON d FROM raw INTO hours; CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS sum") // all windows wait as one
		h.fail = func(_ string, n int) error {
			if n > 1 {
				return tooMuch
			}
			return nil
		}
		if err := h.settle(); err != nil {
			t.Fatal(err)
		}
		if got := len(h.contents("SELECT * FROM hours.m")); got != 4 {
			t.Errorf("%v: %d rows", tooMuch, got)
		}
	}
}

// TestDroppedShard: a crash right after a shard was dropped does not forget its windows,
// though the catalog's files have the drop and a replay does not see it again.
func TestDroppedShard(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "m f=1 3600"); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := len(h.contents("SELECT * FROM hours.m")); got != 1 {
		t.Fatalf("%d rows", got)
	}
	h.must("DROP SHARD 1")
	h.crash(0)
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := h.contents("SELECT * FROM hours.m"); len(got) != 0 {
		t.Errorf("left: %v", got)
	}
}

// TestTargetAge: windows that the target does not keep are not computed.
func TestTargetAge(t *testing.T) {
	h := hourly(t)
	h.must("ALTER RETENTION POLICY hours ON d DURATION 24h")
	if err := h.load("raw", "m f=1 3600\nm f=2 80000"); err != nil {
		t.Fatal(err)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got := len(h.contents("SELECT * FROM hours.m")); got != 1 {
		t.Errorf("%d rows", got)
	}
}

// TestConflict: windows of a row that the target cannot store fail, and keep no others back.
func TestConflict(t *testing.T) {
	h := hourly(t)
	if err := h.load("hours", `m max_f="text" 7200`); err != nil {
		t.Fatal(err)
	}
	if err := h.load("raw", "m f=1 3600\nm f=2 80000\nn f=2 80000"); err != nil {
		t.Fatal(err)
	}
	h.round()
	progress := h.service.Progress()[h.store.Catalog().Database("d").Downsamples[0].ID]
	if !strings.Contains(progress.Err, "conflict") || progress.Waiting != 2 || progress.Failing != 2 {
		t.Errorf("%+v", progress)
	}
	if got := len(h.contents("SELECT * FROM hours.n")); got != 1 {
		t.Errorf("%d rows of another measurement", got)
	}
}

// TestConflictElsewhere: a row that the target cannot store is no reason to forget what
// others write into another measurement.
func TestConflictElsewhere(t *testing.T) {
	h := hourly(t)
	if err := errors.Join(h.load("hours", `a max_f="text" 7200`), h.load("raw", "a f=1 3600\nb f=1 3600")); err != nil {
		t.Fatal(err)
	}
	const calls = 9 // of a visit that finds another row of b in each round
	n, applied := 0, h.service.opt.Applied
	h.service.opt.Applied = func() uint64 {
		if n++; n <= calls {
			if err := h.load("hours", fmt.Sprintf("b,x=%d max_f=9 3600", n)); err != nil {
				t.Error(err)
			}
		}
		return applied()
	}
	h.round()
	if n < calls {
		t.Fatalf("%d calls", n)
	}
	if progress := h.service.Progress()[h.store.Catalog().Database("d").Downsamples[0].ID]; progress.Waiting != 2 {
		t.Errorf("%+v with %v", progress, h.contents("SELECT * FROM hours.b"))
	}
	h.now = h.now.Add(time.Hour)
	h.round()
	if got := h.contents("SELECT * FROM hours.b"); len(got) != 1 || got["b 1970-01-01T01:00:00Z"] != "max_f=1" {
		t.Errorf("%v", got)
	}
}

// TestBackfillAmongFailures: very many measurements that fail, more than are noted, do not
// keep a back-fill back.
func TestBackfillAmongFailures(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "old f=1 3600"); err != nil {
		t.Fatal(err)
	}
	h.must("DROP DOWNSAMPLE ON d FROM raw INTO hours; CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS max")
	var lines strings.Builder
	for i := range failuresMost + 5*visitFailures {
		fmt.Fprintf(&lines, "bad%04d f=1 90000\n", i)
	}
	if err := h.load("raw", lines.String()); err != nil {
		t.Fatal(err)
	}
	h.fail = func(measurement string, _ int) error {
		if measurement != "old" {
			return errors.New("no room for it")
		}
		return nil
	}
	for range 3 {
		h.round()
	}
	if got := h.contents("SELECT * FROM hours.old"); len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// TestLateRows: late rows that come to early windows all the time do not keep later
// windows back, though each takes the time of a visit.
func TestLateRows(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "m f=1 3600\nm f=1 7200\nm f=1 10800\nn f=1 7200\nn f=1 50000"); err != nil {
		t.Fatal(err)
	}
	h.service.opt.Rows = 1
	late := 1
	h.fail = func(string, int) error {
		h.now = h.now.Add(visitTime + 1)
		late++
		return h.load("raw", fmt.Sprintf("m f=%d 3600\nm f=%d 7200", late, late))
	}
	for range 10 {
		h.round()
	}
	if got := h.contents("SELECT * FROM hours./.*/"); len(got) != 5 {
		t.Errorf("after %d writes: %v", late, got)
	}
}

// TestRun: Run computes by itself, and ends with its context.
func TestRun(t *testing.T) {
	h := hourly(t)
	if err := h.load("raw", "m f=1 3600"); err != nil {
		t.Fatal(err)
	}
	h.service.opt.Interval = time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		h.service.Run(ctx)
	}()
	for len(h.contents("SELECT * FROM hours.m")) == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	<-ended
}

// gauge is a collector of one metric of a service.
type gauge struct {
	*Service
	desc *prometheus.Desc
}

func (g gauge) Describe(ch chan<- *prometheus.Desc) { ch <- g.desc }

func (g gauge) Collect(ch chan<- prometheus.Metric) {
	all := make(chan prometheus.Metric, 16)
	g.Service.Collect(all)
	close(all)
	for m := range all {
		if m.Desc() == g.desc {
			ch <- m
		}
	}
}

// TestBackfillGoesOn: a visit computes one shard group after the other as long as it may take.
func TestBackfillGoesOn(t *testing.T) {
	h := newHarness(t)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1")
	h.now = time.Unix(0, 0).Add(21 * 24 * time.Hour)
	for day := range 20 {
		if err := h.load("raw", fmt.Sprintf("m f=1 %d", day*86400+3600)); err != nil {
			t.Fatal(err)
		}
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS count")
	for range 2 { // the second sees that the target is right
		h.service.everyTime()
		h.service.round(t.Context())
	}
	for _, progress := range h.service.Progress() {
		if progress.Waiting != 0 || h.written != 20 {
			t.Errorf("%d windows are waiting, and %d rows were written", progress.Waiting, h.written)
		}
	}
}

// TestAlterInRound: a downsample that is changed while another one is visited is computed again
// as it is now.
func TestAlterInRound(t *testing.T) {
	h := newHarness(t)
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY first ON d DURATION INF REPLICATION 1; CREATE RETENTION POLICY second ON d DURATION INF REPLICATION 1")
	h.now = time.Unix(0, 0).Add(3 * 24 * time.Hour)
	if err := h.load("raw", "m f=1 3600"); err != nil {
		t.Fatal(err)
	}
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO first EVERY 1h AS count; CREATE DOWNSAMPLE ON d FROM raw INTO second EVERY 1h AS count")
	h.fail = func(string, int) error { // a write to the first
		h.fail = nil
		h.must("ALTER DOWNSAMPLE ON d FROM raw INTO second EVERY 6h")
		return nil
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	if got, want := h.ask("SELECT * FROM second.m"), "m\n  1970-01-01T00:00:00Z count_f=1\n"; got != want {
		t.Errorf("the target has\n%swant\n%s", got, want)
	}
}
