package downsample

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/testutil"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// hold makes a downsample of which windows wait that hold the shard groups of two days.
func (h *harness) hold() {
	h.t.Helper()
	h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 52w")
	h.must("CREATE DOWNSAMPLE ON d FROM raw INTO hours EVERY 1h AS count")
	for day := range 3 {
		h.now = time.Unix(int64(day+1)*86400, 0)
		for hour := range 24 {
			if err := h.load("raw", fmt.Sprintf("m v=1 %d", day*86400+hour*3600)); err != nil {
				h.t.Fatal(err)
			}
		}
	}
	if err := h.settle(); err != nil {
		h.t.Fatal(err)
	}
	for at := 10; at < 3*86400; at += 3600 { // late
		if err := h.load("raw", fmt.Sprintf("m v=2 %d", at)); err != nil {
			h.t.Fatal(err)
		}
	}
	h.must("ALTER RETENTION POLICY raw ON d DURATION 2d")
	h.now = time.Unix(4*86400+3600, 0)
}

// What is held is told by SHOW DOWNSAMPLES, the health check and metrics, and computed first.
func TestHeld(t *testing.T) {
	h := newHarness(t)
	if got := h.service.Health(); got != "" {
		t.Errorf("health of nothing: %s", got)
	}
	h.hold()
	figures := func(groups int64, seconds float64, health string) {
		t.Helper()
		for _, p := range h.service.Progress() {
			if p.Held != groups {
				t.Errorf("%d groups are held, want %d", p.Held, groups)
			}
		}
		if n := testutil.ToFloat64(gauge{h.service, heldDesc}); n != float64(groups) {
			t.Errorf("metric: %v groups, want %d", n, groups)
		}
		if n := testutil.ToFloat64(gauge{h.service, heldAgeDesc}); n != seconds {
			t.Errorf("metric: %v seconds, want %v", n, seconds)
		}
		if got := h.service.Health(); got != health {
			t.Errorf("health %q, want %q", got, health)
		}
	}
	const text = "2 shard groups of d.raw have expired and are kept until the downsample into hours has their windows, see SHOW DOWNSAMPLES"
	figures(2, 0, text)
	h.fail = func(string, int) error { return errors.New("no") }
	h.service.round(context.Background())
	h.now = h.now.Add(3 * time.Hour)
	h.service.round(context.Background())
	figures(2, 3*3600, text+", for 3h0m0s")
	h.fail = nil
	var order []int64
	h.failAt = func(_ string, at int64) error {
		order = append(order, at/1e9)
		return nil
	}
	h.service.tasks = map[uint64]*task{}
	for id := range h.service.Progress() { // a visit stopped behind what expires
		h.service.tasks[id] = &task{}
		h.service.tasks[id].stopped.Measurement, h.service.tasks[id].stopped.From, h.service.tasks[id].stopped.To = "m", 2*86400e9, 2*86400e9+3600e9
	}
	h.service.round(context.Background())
	if len(order) == 0 || order[0] != 0 {
		t.Errorf("windows are computed in the order %v", order)
	}
	if err := h.settle(); err != nil {
		t.Fatal(err)
	}
	figures(0, 0, "")
	for range 2 {
		if err := h.expire("raw"); err != nil {
			t.Fatal(err)
		}
	}
}

// On a full disk the windows that hold expired groups are computed in the reserve of the log,
// so that the groups go and make room. To drop the downsample, or to give the windows up, works
// as well.
func TestHeldOnFullDisk(t *testing.T) {
	const fresh = "a target without shard groups"
	for _, c := range []string{"", fresh, "ALTER DOWNSAMPLE ON d FROM raw INTO hours SKIP BEFORE '1970-01-03'", "DROP DOWNSAMPLE ON d FROM raw INTO hours"} {
		h := newHarness(t)
		h.hold()
		if c == fresh {
			h.must("CREATE RETENTION POLICY days ON d DURATION INF REPLICATION 1 SHARD DURATION 1d; CREATE DOWNSAMPLE ON d FROM raw INTO days EVERY 1h AS count")
		}
		if err := h.expire("raw"); !errors.Is(err, meta.ErrDownsampleWaits) {
			t.Fatalf("the group goes: %v", err)
		}
		h.fs.SetLimit(1)
		at := 2*86400 + 7200                   // in a shard that is there
		for size := 128; size > 0; size /= 2 { // until the smallest row has no room
			var full error
			for ; full == nil && at < 3*86400; at++ {
				full = h.load("raw", fmt.Sprintf("m s=%q %d", strings.Repeat("x", size), at))
			}
			if !vfs.IsFull(full) {
				t.Fatalf("the disk is not full: %v", full)
			}
		}
		if c != "" && c != fresh {
			h.must(c)
		} else {
			for id := range h.service.Progress() {
				for range 20 {
					h.service.everyTime()
					h.service.round(context.Background())
				}
				if n := h.service.Progress()[id].Held; n != 0 {
					t.Errorf("%d groups are held on a full disk: %s", n, h.service.Progress()[id].Err)
				}
			}
		}
		for range 2 {
			if err := h.expire("raw"); err != nil {
				t.Errorf("%s: %v", c, err)
			}
		}
		h.fs.SetLimit(0)
		h.crash(1)
		want := "count_v=2"
		if c != "" && c != fresh {
			want = "count_v=1"
		}
		if c == fresh {
			if got := h.contents("SELECT count_v FROM days.m WHERE time < 172800s"); len(got) != 48 || got["m 1970-01-01T00:00:00Z"] != want {
				t.Errorf("after a restart the fresh target has %v", got)
			}
		}
		if got := h.contents("SELECT count_v FROM hours.m WHERE time = 0"); len(got) != 1 || got["m 1970-01-01T00:00:00Z"] != want {
			t.Errorf("%s: after a restart the window has %v, want %s", c, got, want)
		}
	}
}

// A window that damage keeps from being computed holds its group, by name, until it is given up.
func TestHeldByDamage(t *testing.T) {
	h := newHarness(t)
	h.hold()
	day := model.TimeRange{Min: 0, Max: 86400e9 - 1}
	h.lost = []scan.Loss{{Shard: 1, Range: day, Path: "1.tsm"}}
	for range 3 {
		h.service.everyTime()
		h.service.round(context.Background())
		h.now = h.now.Add(time.Hour)
	}
	for _, p := range h.service.Progress() {
		if p.Held != 2 || p.Failing == 0 || !strings.Contains(p.Err, "1.tsm") {
			t.Errorf("%d groups are held, %d windows fail: %s", p.Held, p.Failing, p.Err)
		}
	}
	if err := h.expire("raw"); !errors.Is(err, meta.ErrDownsampleWaits) {
		t.Errorf("the group goes: %v", err)
	}
	h.must("ALTER DOWNSAMPLE ON d FROM raw INTO hours SKIP BEFORE '1970-01-02'")
	if err := h.expire("raw"); err != nil {
		t.Error(err)
	}
	h.lost = nil
	if err := h.settle(); err != nil {
		t.Error(err)
	}
	if got := h.contents("SELECT count_v FROM hours.m WHERE time < 90000000000000"); got["m 1970-01-01T00:00:00Z"] != "count_v=1" || got["m 1970-01-02T00:00:00Z"] != "count_v=2" {
		t.Errorf("the target has %v", got)
	}
}
