package retention

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/meta"
)

// memStore is a store that has a catalog and no disk.
type memStore struct {
	mu   sync.Mutex
	data *meta.Data
	fail error
	keep uint64 // a shard group that a downsample needs
	// before, if set, runs once before the next Apply, as another client would.
	before meta.Command
}

func newStore(t *testing.T, cmds ...meta.Command) *memStore {
	t.Helper()
	c := &memStore{data: new(meta.Data)}
	for _, cmd := range cmds {
		if err := c.Apply(t.Context(), cmd); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

func (c *memStore) Catalog() *meta.Data {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.data
}

func (c *memStore) Apply(_ context.Context, cmd meta.Command) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fail != nil {
		return c.fail
	}
	if d, ok := cmd.(meta.DropShardGroup); ok && d.ID == c.keep && !d.Uncomputed {
		return fmt.Errorf("%w: from raw into hours", meta.ErrDownsampleWaits)
	}
	if c.before != nil {
		changed, err := meta.Apply(c.before, c.data)
		if err != nil {
			return err
		}
		c.data, c.before = changed, nil
	}
	next, err := meta.Apply(cmd, c.data)
	if err == nil {
		c.data = next
	}
	return err
}

func (c *memStore) starts(t *testing.T) []time.Time {
	t.Helper()
	rp, err := c.Catalog().RetentionPolicy("db", "")
	if err != nil {
		t.Fatal(err)
	}
	var out []time.Time
	for _, g := range rp.ShardGroups {
		out = append(out, time.Unix(0, g.Start).UTC())
	}
	return out
}

func policy(d time.Duration) *meta.RetentionPolicySpec {
	return &meta.RetentionPolicySpec{Duration: &d}
}

func group(at time.Time) meta.Command {
	return meta.CreateShardGroup{Database: "db", Time: at.UnixNano()}
}

func TestExpired(t *testing.T) {
	end := time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)
	g := &meta.ShardGroup{Start: end.Add(-time.Hour).UnixNano(), End: end.UnixNano()}
	for _, c := range []struct {
		keep time.Duration
		now  time.Time
		want bool
	}{
		{0, end.AddDate(200, 0, 0), false},
		{time.Hour, end.Add(time.Hour), false},
		{time.Hour, end.Add(time.Hour + 1), true},
		{1<<63 - 1, end.AddDate(200, 0, 0), false},
	} {
		if got := Expired(&meta.RetentionPolicy{Duration: c.keep}, g, c.now); got != c.want {
			t.Errorf("Expired(keep %v, now %v) = %v", c.keep, c.now, got)
		}
	}
}

func TestExpiryDropsAtSecondSight(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC().Truncate(time.Hour)
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(2 * time.Hour)},
			group(start.Add(-9*time.Hour)), group(start.Add(-4*time.Hour)), group(start))
		s := Start(Options{Store: c})
		dropped := func() []uint64 { return c.Catalog().Dropped.Shards }
		synctest.Wait()
		if got := dropped(); len(got) != 0 {
			t.Fatalf("dropped %v at first sight", got)
		}
		time.Sleep(DefaultCheckInterval)
		synctest.Wait()
		if got := dropped(); !slices.Equal(got, []uint64{1, 2}) {
			t.Fatalf("dropped %v, want [1 2]", got)
		}
		// The present group ends at start+1h, so it goes after start+3h, seen
		// expired at 3h30 and again at 4h.
		time.Sleep(3*time.Hour + 15*time.Minute)
		synctest.Wait()
		if got := dropped(); len(got) != 2 {
			t.Fatalf("dropped %v too early", got)
		}
		time.Sleep(30 * time.Minute)
		synctest.Wait()
		if got := dropped(); !slices.Contains(got, 3) {
			t.Fatalf("dropped %v, want shard 3 too", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// logText is a log to be read while it is written.
type logText struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func TestClockJumpDeletesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var offset time.Duration
		var mu sync.Mutex
		jump := func(d time.Duration) { mu.Lock(); offset = d; mu.Unlock() }
		now := func() time.Time { mu.Lock(); defer mu.Unlock(); return time.Now().Add(offset) }
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(24 * time.Hour)}, group(time.Now()))
		first := c.starts(t)[0] // later groups are made ahead
		there := func() bool { return slices.Contains(c.starts(t), first) }
		var said logText
		s := Start(Options{Store: c, Now: now, Logger: slog.New(slog.NewTextHandler(&said, nil))})
		defer s.Close()
		for _, by := range []time.Duration{time.Hour, 10 * 365 * 24 * time.Hour, -10 * 365 * 24 * time.Hour} {
			// Right until just after one check, set back before the next.
			time.Sleep(DefaultCheckInterval - time.Minute)
			jump(by)
			time.Sleep(2 * time.Minute)
			jump(0)
			time.Sleep(3*DefaultCheckInterval - time.Minute)
			synctest.Wait()
			if !there() {
				t.Fatalf("jump by %v: the group is gone", by)
			}
			// Twice seen, but not twice in a row.
		}
		if n := strings.Count(said.String(), "the wall clock jumped"); n != 6 {
			t.Errorf("%d jumps told, want 6: %s", n, said.String())
		}
		// Each jump begins the wait anew.
		for years := range time.Duration(3) {
			jump((10 + years) * 365 * 24 * time.Hour)
			time.Sleep(DefaultCheckInterval)
			synctest.Wait()
			if !there() {
				t.Fatal("a clock set again and again: the group is gone")
			}
		}
		if !strings.Contains(said.String(), "shard groups have expired") {
			t.Errorf("not told: %s", said.String())
		}
		time.Sleep(DefaultCheckInterval)
		synctest.Wait()
		if there() {
			t.Error("the group is still there")
		}
	})
}

func TestFailureKeepsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(time.Hour)}, group(time.Now().Add(-9*time.Hour)))
		c.fail = errors.New("store is read-only")
		s := Start(Options{Store: c})
		time.Sleep(4 * DefaultCheckInterval)
		synctest.Wait()
		if len(c.starts(t)) != 1 {
			t.Fatalf("groups %v", c.starts(t))
		}
		c.mu.Lock()
		c.fail = nil
		c.mu.Unlock()
		time.Sleep(DefaultCheckInterval)
		synctest.Wait()
		s.Close()
		if len(c.starts(t)) != 0 {
			t.Fatalf("groups %v after recovery", c.starts(t))
		}
	})
}

// A policy that was given a longer life a moment before the drop keeps its data.
func TestAlteredPolicyKeepsGroup(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(time.Hour)}, group(time.Now().Add(-9*time.Hour)))
		forever := time.Duration(0)
		c.before = meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "autogen", Duration: &forever}}
		s := Start(Options{Store: c})
		time.Sleep(10 * DefaultCheckInterval)
		synctest.Wait()
		s.Close()
		if c.before != nil || len(c.starts(t)) != 1 {
			t.Fatalf("groups %v", c.starts(t))
		}
	})
}

func TestPrecreation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC().Truncate(24 * time.Hour)
		c := newStore(t, meta.CreateDatabase{Name: "db"},
			meta.CreateDatabase{Name: "idle"},
			group(start.Add(-30*24*time.Hour)), group(start))
		rp, _ := c.Catalog().RetentionPolicy("db", "")
		end := time.Unix(0, rp.ShardGroups[1].End)
		s := Start(Options{Store: c})
		defer s.Close()
		time.Sleep(time.Until(end.Add(-31 * time.Minute)))
		synctest.Wait()
		if got := c.starts(t); len(got) != 2 {
			t.Fatalf("groups %v before the advance period", got)
		}
		time.Sleep(time.Until(end.Add(-19 * time.Minute)))
		synctest.Wait()
		got := c.starts(t)
		if len(got) != 3 || !got[2].Equal(end) {
			t.Fatalf("groups %v, want one that starts at %v", got, end)
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		if got := c.starts(t); len(got) != 3 {
			t.Fatalf("groups %v, want 3", got)
		}
	})
}

// TestKept: a group that a downsample needs stays, and goes at the first check after that.
func TestKept(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC().Truncate(time.Hour)
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(2 * time.Hour)}, group(start.Add(-9*time.Hour)), group(start.Add(-4*time.Hour)))
		c.keep = 1
		log := new(logText)
		s := Start(Options{Store: c, Logger: slog.New(slog.NewTextHandler(log, nil))})
		time.Sleep(DefaultCheckInterval)
		synctest.Wait()
		if got := c.Catalog().Dropped.Shards; !slices.Equal(got, []uint64{2}) {
			t.Errorf("dropped %v, want [2]", got)
		}
		if got := log.String(); strings.Count(got, "level=WARN") != 1 || !strings.Contains(got, "expired shard groups are kept") || !strings.Contains(got, "groups=1") {
			t.Errorf("log: %s", got)
		}
		c.mu.Lock()
		c.keep = 0
		c.mu.Unlock()
		time.Sleep(DefaultCheckInterval)
		synctest.Wait()
		if got := c.Catalog().Dropped.Shards; !slices.Equal(got, []uint64{2, 1}) {
			t.Errorf("dropped %v, want [2 1]", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestKeptForATime: a group waits for a downsample for as long as it may. After a day that is
// an error in the log.
func TestKeptForATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		start := time.Now().UTC().Truncate(time.Hour)
		c := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(2 * time.Hour)}, group(start.Add(-time.Hour)))
		c.keep = 1
		log := new(logText)
		s := Start(Options{Store: c, Wait: 30 * time.Hour, Logger: slog.New(slog.NewTextHandler(log, nil))})
		// The group ends now, expires after two hours, and goes thirty hours later.
		for _, step := range []struct {
			at             time.Duration
			dropped        int
			warning, alarm bool
		}{{2 * time.Hour, 0, false, false}, {25 * time.Hour, 0, true, false}, {31 * time.Hour, 0, true, true}, {33 * time.Hour, 1, true, true}} {
			time.Sleep(time.Until(start.Add(step.at)))
			synctest.Wait()
			if got := c.Catalog().Dropped.Shards; len(got) != step.dropped {
				t.Errorf("after %v: dropped %v", step.at, got)
			}
			const text = "msg=\"expired shard groups are kept"
			if got := log.String(); strings.Contains(got, "level=WARN "+text) != step.warning || strings.Contains(got, "level=ERROR "+text) != step.alarm {
				t.Errorf("after %v: log: %s", step.at, got)
			}
		}
		if got := log.String(); !strings.Contains(got, "has waited for a downsample for as long as it may") || !strings.Contains(got, "from raw into hours") {
			t.Errorf("log: %s", got)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	})
}

// TestWaitOutlivesTheService: a group has waited since it expired, whoever has looked at it. A
// policy that is given a shorter life, and a downsample that is made or changed, begin the wait.
func TestWaitOutlivesTheService(t *testing.T) {
	for _, c := range []struct {
		what string
		do   func(now time.Time) meta.Command // at 20 hours; nil: nothing
		want int                              // hours after which it is dropped
	}{
		{"nothing", nil, 32},
		{"a shorter life", func(now time.Time) meta.Command {
			return meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "autogen", Duration: policy(time.Hour).Duration}, Time: now.UnixNano()}
		}, 50},
		{"a longer life", func(now time.Time) meta.Command {
			return meta.AlterRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "autogen", Duration: policy(4 * time.Hour).Duration}, Time: now.UnixNano()}
		}, 34},
		{"another downsample", func(now time.Time) meta.Command {
			return meta.CreateDownsample{Database: "db", From: "autogen", Into: "days", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Minute}, Functions: []string{"max"}}}, Time: now.UnixNano()}
		}, 50},
		{"other functions", func(now time.Time) meta.Command {
			return meta.AlterDownsample{Database: "db", From: "autogen", Into: "hours", Add: []string{"min"}, Time: now.UnixNano()}
		}, 50},
		{"another use", func(now time.Time) meta.Command {
			return meta.AlterDownsample{Database: "db", From: "autogen", Into: "hours", Use: meta.UseOff, Time: now.UnixNano()}
		}, 32},
	} {
		synctest.Test(t, func(t *testing.T) {
			start := time.Now().UTC().Truncate(time.Hour)
			c2 := newStore(t, meta.CreateDatabase{Name: "db", Policy: policy(2 * time.Hour)}, group(start.Add(-time.Hour)),
				meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}, meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "days"}},
				meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Minute}, Functions: []string{"max"}}}, Time: start.UnixNano()})
			c2.keep = 1
			for hour := 0; ; hour += 5 {
				if hour == 20 && c.do != nil {
					if err := c2.Apply(t.Context(), c.do(time.Now())); err != nil {
						t.Fatal(err)
					}
				}
				s := Start(Options{Store: c2, Wait: 30 * time.Hour})
				time.Sleep(5*time.Hour - time.Minute)
				synctest.Wait()
				_ = s.Close()
				time.Sleep(time.Minute)
				if len(c2.Catalog().Dropped.Shards) > 0 || hour > 100 {
					if hour > c.want || hour+5 < c.want {
						t.Errorf("%s: dropped from hour %d to %d, want %d", c.what, hour, hour+5, c.want)
					}
					return
				}
			}
		})
	}
}
