package downsample

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

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
	clear(h.service.next)
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
		tier := h.service.Tiers()[h.store.Catalog().Database("d").Downsamples[0].ID]
		if !strings.Contains(tier.Err, ": no room for it") || tier.Waiting == 0 || tier.Backfilled != 1 {
			t.Errorf("%s: %+v", name, tier)
		}
		if n := testutil.ToFloat64(gauge{h.service, behindDesc}); n != 34*3600 && n != 35*3600 {
			t.Errorf("%s: %v seconds behind", name, n)
		}
		if wait := h.service.backoff[h.store.Catalog().Database("d").Downsamples[0].ID]; wait != time.Minute {
			t.Errorf("%s: waits %v", name, wait)
		}
		h.fail = nil
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

// TestConflict: a row that the target can never store is told, and not tried for ever.
func TestConflict(t *testing.T) {
	h := hourly(t)
	if err := h.load("hours", `m max_f="text" 7200`); err != nil {
		t.Fatal(err)
	}
	if err := h.load("raw", "m f=1 3600\nm f=2 80000\nn f=2 80000"); err != nil {
		t.Fatal(err)
	}
	h.round()
	tier := h.service.Tiers()[h.store.Catalog().Database("d").Downsamples[0].ID]
	if !strings.Contains(tier.Err, "conflict") || tier.Waiting != 0 {
		t.Errorf("%+v", tier)
	}
	if got := len(h.contents("SELECT * FROM hours.n")); got != 1 {
		t.Errorf("%d rows of another measurement", got)
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
