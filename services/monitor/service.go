package monitor

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"slices"
	"sync"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/query/show"
)

// The defaults of Options. They are InfluxDB's.
const (
	DefaultDatabase = "_internal"
	DefaultInterval = 10 * time.Second
)

// The policy that statistics are written to, InfluxDB's.
const (
	Policy         = "monitor"
	PolicyDuration = 7 * 24 * time.Hour
)

// Options configure a Service. Writer and Statistics are required.
type Options struct {
	Writer     Writer
	Statistics func(ctx context.Context) ([]show.Statistic, error)
	Logger     *slog.Logger // nil discards
	Database   string
	Interval   time.Duration
	Hostname   string // "": no tag
}

// Writer stores statistics.
type Writer interface {
	// Table returns the database's table of series, or meta.ErrDatabaseNotFound.
	Table(db string) (*point.Table, error)
	// Write returns nil when all points are durable.
	Write(ctx context.Context, db, rp string, batch *point.Batch) error
	// EnsurePolicy creates the database and the policy if they do not exist.
	EnsurePolicy(ctx context.Context, db, rp string, duration time.Duration) error
}

// Service writes statistics until it is closed.
type Service struct {
	opt    Options
	cancel context.CancelFunc
	done   chan struct{}
	once   sync.Once
}

// Start returns a service that writes at every full interval.
func Start(opt Options) *Service {
	if opt.Logger == nil {
		opt.Logger = slog.New(slog.DiscardHandler)
	}
	opt.Database = cmp.Or(opt.Database, DefaultDatabase)
	opt.Interval = cmp.Or(max(0, opt.Interval), DefaultInterval)
	ctx, cancel := context.WithCancel(context.Background())
	s := &Service{opt: opt, cancel: cancel, done: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Close cancels the current round and waits for it.
func (s *Service) Close() {
	s.once.Do(func() { s.cancel(); <-s.done })
}

func (s *Service) run(ctx context.Context) {
	defer close(s.done)
	healthy := true
	for {
		now := time.Now()
		next := now.Truncate(s.opt.Interval).Add(s.opt.Interval)
		timer := time.NewTimer(next.Sub(now))
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		}
		err := s.round(ctx, next)
		switch {
		case ctx.Err() != nil:
			return
		case err == nil && !healthy:
			s.opt.Logger.Info("statistics are written again", "db", s.opt.Database)
		case err != nil && healthy:
			s.opt.Logger.Warn("statistics not written, it is tried again at every interval", "db", s.opt.Database, "err", err)
		}
		healthy = err == nil
	}
}

// round writes the statistics of now as of a time.
func (s *Service) round(ctx context.Context, at time.Time) error {
	all, err := s.opt.Statistics(ctx)
	if err != nil {
		return err
	}
	err = s.write(ctx, all, at)
	if errors.Is(err, meta.ErrDatabaseNotFound) || errors.Is(err, meta.ErrRetentionPolicyNotFound) {
		if err := s.opt.Writer.EnsurePolicy(ctx, s.opt.Database, Policy, PolicyDuration); err != nil {
			return err
		}
		err = s.write(ctx, all, at)
	}
	return err
}

func (s *Service) write(ctx context.Context, all []show.Statistic, at time.Time) error {
	table, err := s.opt.Writer.Table(s.opt.Database)
	if err != nil {
		return err
	}
	var batch point.Batch
	rows := point.NewBuilder(table, &batch)
	for i := range all {
		s.add(rows, &all[i], at.UnixNano())
	}
	if len(batch.Rows) == 0 {
		return nil
	}
	if err := s.opt.Writer.Write(ctx, s.opt.Database, Policy, &batch); err != nil {
		return fmt.Errorf("write statistics: %w", err)
	}
	return nil
}

// add adds a statistic as a row. One that cannot be stored is left out.
func (s *Service) add(rows *point.Builder, stat *show.Statistic, at int64) {
	tags := slices.Clone(stat.Tags)
	if s.opt.Hostname != "" && tags.Get("hostname") == "" {
		tags = slices.DeleteFunc(tags, func(t model.Tag) bool { return t.Key == "hostname" })
		tags = append(tags, model.Tag{Key: "hostname", Value: s.opt.Hostname})
	}
	if rows.Series(stat.Name, tags) != nil {
		return
	}
	for _, key := range slices.Sorted(maps.Keys(stat.Values)) {
		switch v := stat.Values[key].(type) {
		case int64:
			rows.Integer(key, v)
		case uint64:
			rows.Unsigned(key, v)
		case float64:
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				rows.Float(key, v)
			}
		case bool:
			rows.Boolean(key, v)
		case string:
			rows.String(key, v)
		}
	}
	_ = rows.Row(at)
}
