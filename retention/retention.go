package retention

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"tsdbd/meta"
)

// Store is the part of the engine that the service calls.
type Store interface {
	Catalog() *meta.Data
	Apply(ctx context.Context, cmd meta.Command) error
}

// The intervals of InfluxDB.
const (
	DefaultCheckInterval = 30 * time.Minute
	precreateInterval    = 10 * time.Minute
	// precreateAdvance is how long before its end a group gets its successor.
	precreateAdvance = 30 * time.Minute
)

// Options adjusts a Service. Only Store is required.
type Options struct {
	Store         Store
	CheckInterval time.Duration    // between looks for expired groups; 0: the default
	Wait          time.Duration    // for which an expired group waits for downsamples, see WaitsSince; 0: for ever
	Logger        *slog.Logger     // nil discards
	Now           func() time.Time // the wall clock; nil is time.Now
}

// Expired reports whether all data of g is older than its policy keeps: the
// group's end plus the policy's duration lies before now.
func Expired(rp *meta.RetentionPolicy, g *meta.ShardGroup, now time.Time) bool {
	return rp.Duration > 0 && g.End < now.UnixNano()-int64(rp.Duration)
}

// WaitsSince returns since when an expired group may have waited for downsamples: since it has
// expired, but not from before the policy was given a shorter life or they were made.
func WaitsSince(db *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup) time.Time {
	at := max(g.End+int64(rp.Duration), rp.Shortened)
	for _, d := range db.Downsamples {
		if d.From == rp.Name {
			at = max(at, d.Changed)
		}
	}
	return time.Unix(0, at)
}

// alarm is how long an expired group may wait for a downsample before that counts as an error.
const alarm = 24 * time.Hour

// Service runs the loops.
type Service struct {
	opt    Options
	cancel context.CancelFunc
	wg     sync.WaitGroup

	// Owned by the expiry loop.
	firstSeen map[uint64]time.Time // group id -> when it was first found expired
	// Both clocks at the check before.
	lastWall, lastSeen time.Time
}

// Start starts the loops. The first check runs at once. Close ends them.
func Start(opt Options) *Service {
	opt.CheckInterval = cmp.Or(opt.CheckInterval, DefaultCheckInterval)
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	if opt.Now == nil {
		opt.Now = time.Now
	}
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{opt: opt, cancel: cancel, firstSeen: map[uint64]time.Time{}}
	s.wg.Go(func() { every(ctx, opt.CheckInterval, s.expire) })
	s.wg.Go(func() { every(ctx, precreateInterval, s.precreate) })
	return s
}

// Close ends the loops and waits for them; a check under way is finished.
func (s *Service) Close() error {
	s.cancel()
	s.wg.Wait()
	return nil
}

// every calls f until ctx ends, with a full interval between the end of one
// call and the start of the next.
func every(ctx context.Context, interval time.Duration, f func(context.Context)) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-timer.C:
		}
		f(ctx)
		timer.Reset(interval)
	}
}

// expire is one check of the expiry loop.
func (s *Service) expire(ctx context.Context) {
	wall, seen := s.opt.Now(), time.Now() // seen carries the monotonic clock
	s.watchClock(wall, seen)
	stillExpired := make(map[uint64]time.Time, len(s.firstSeen))
	for _, db := range s.opt.Store.Catalog().Databases {
		for _, rp := range db.RetentionPolicies {
			fresh, kept := 0, 0
			var longest time.Duration
			var why error
			for _, g := range rp.ShardGroups {
				if !Expired(rp, g, wall) {
					break // groups are sorted by time, later ones are younger
				}
				first, known := s.firstSeen[g.ID]
				if !known {
					stillExpired[g.ID] = seen
					fresh++
					continue
				}
				if seen.Sub(first) < s.opt.CheckInterval || ctx.Err() != nil {
					stillExpired[g.ID] = first
					continue
				}
				waited := wall.Sub(WaitsSince(db, rp, g))
				err := s.drop(ctx, db, rp, g, s.opt.Wait > 0 && waited > s.opt.Wait)
				if err != nil {
					stillExpired[g.ID] = first
				}
				if errors.Is(err, meta.ErrDownsampleWaits) {
					kept++
					longest, why = max(longest, waited), cmp.Or(why, err)
				}
			}
			if kept > 0 {
				level := slog.LevelWarn
				if longest > alarm {
					level = slog.LevelError
				}
				s.opt.Logger.Log(ctx, level, "expired shard groups are kept until a downsample has computed their windows",
					"db", db.Name, "rp", rp.Name, "groups", kept, "for", longest.Round(time.Second), "err", why)
			}
			if fresh > 0 {
				s.opt.Logger.Info("shard groups have expired", "db", db.Name, "rp", rp.Name,
					"groups", fresh, "of", len(rp.ShardGroups), "dropped_in", s.opt.CheckInterval)
			}
		}
	}
	s.firstSeen = stillExpired
}

// clockJump is how far the wall clock may move against the monotonic one
// between two checks: daylight saving does not move it, slewing does a little.
const clockJump = 5 * time.Minute

// watchClock begins the wait of all groups again when the wall clock was set.
func (s *Service) watchClock(wall, seen time.Time) {
	wall = wall.Round(0) // without the monotonic clock
	if !s.lastSeen.IsZero() {
		moved := wall.Sub(s.lastWall) - seen.Sub(s.lastSeen)
		if moved.Abs() > clockJump {
			s.opt.Logger.Warn("the wall clock jumped, restarting the wait before expired shard groups are dropped", "by", moved, "now", wall.UTC())
			clear(s.firstSeen)
		}
	}
	s.lastWall, s.lastSeen = wall, seen
}

// drop drops one group. It logs its error, unless a downsample needs the group. What a
// downsample has not computed is lost if uncomputed is set.
func (s *Service) drop(ctx context.Context, db *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup, uncomputed bool) error {
	log := s.opt.Logger.With("db", db.Name, "rp", rp.Name, "group", g.ID)
	cmd := meta.DropShardGroup{Database: db.Name, RetentionPolicy: rp.Name, ID: g.ID, IfDuration: rp.Duration}
	err := s.opt.Store.Apply(ctx, cmd)
	if uncomputed && errors.Is(err, meta.ErrDownsampleWaits) {
		log.Error("expired shard group has waited for a downsample for as long as it may, and goes without", "waited", s.opt.Wait, "err", err)
		cmd.Uncomputed = true
		err = s.opt.Store.Apply(ctx, cmd)
	}
	if errors.Is(err, meta.ErrIndexChanged) || errors.Is(err, meta.ErrShardGroupNotFound) ||
		errors.Is(err, meta.ErrRetentionPolicyNotFound) || errors.Is(err, meta.ErrDatabaseNotFound) || errors.Is(err, meta.ErrDownsampleWaits) {
		return err // a statement was faster, or a downsample needs it; the next check decides again
	}
	if err != nil {
		log.Error("expired shard group not dropped yet", "err", err)
		return err
	}
	log.Info("expired shard group dropped", "end", time.Unix(0, g.End).UTC())
	return nil
}

// precreate is one check of the other loop: a policy whose present group ends
// soon gets the next one. A policy that nobody writes to has no present group.
func (s *Service) precreate(ctx context.Context) {
	now := s.opt.Now().UnixNano()
	for _, db := range s.opt.Store.Catalog().Databases {
		for _, rp := range db.RetentionPolicies {
			g := rp.ShardGroupAt(now)
			if g == nil || g.End > now+int64(precreateAdvance) || rp.ShardGroupAt(g.End) != nil {
				continue
			}
			if ctx.Err() != nil {
				return
			}
			err := s.opt.Store.Apply(ctx, meta.CreateShardGroup{Database: db.Name, RetentionPolicy: rp.Name, Time: g.End})
			if err != nil {
				s.opt.Logger.Warn("next shard group not created ahead", "db", db.Name, "rp", rp.Name, "err", err)
			}
		}
	}
}
