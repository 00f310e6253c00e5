package files

import (
	"context"
	"fmt"
	"time"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/transfer/mover"
)

// Create implements mover.Sink.
func (s *Sink) Create(ctx context.Context, m *mover.Move, databases []*meta.Database) error {
	for _, d := range databases {
		if err := s.create(ctx, m, d); err != nil {
			return fmt.Errorf("database %s: %w", d.Name, err)
		}
	}
	return nil
}

// create makes a database and its policies as far as they are not there.
func (s *Sink) create(ctx context.Context, m *mover.Move, d *meta.Database) error {
	if s.store.Catalog().Database(d.Name) == nil {
		if err := s.store.Apply(ctx, meta.CreateDatabase{Name: d.Name, WithoutPolicy: true}); err != nil {
			return err
		}
		m.Change(func(s *mover.Stats) { s.Databases++ })
	}
	for _, rp := range d.RetentionPolicies {
		have := s.store.Catalog().Database(d.Name)
		if old := have.RetentionPolicy(rp.Name); old != nil {
			if old.Duration != rp.Duration || old.ShardGroupDuration != rp.ShardGroupDuration {
				m.Note(fmt.Sprintf("retention policy %s.%s is there already and stays as it is: it keeps points %s in shards of %s, that of InfluxDB %s in shards of %s",
					d.Name, rp.Name, forever(old.Duration), old.ShardGroupDuration, forever(rp.Duration), rp.ShardGroupDuration))
			}
			continue
		}
		replicas := max(rp.ReplicaN, 1)
		err := s.store.Apply(ctx, meta.CreateRetentionPolicy{
			Database: d.Name,
			Policy:   meta.RetentionPolicySpec{Name: rp.Name, Duration: &rp.Duration, ShardGroupDuration: &rp.ShardGroupDuration, ReplicaN: &replicas},
			Default:  rp.Name == d.DefaultRetentionPolicy && have.RetentionPolicy(have.DefaultRetentionPolicy) == nil,
		})
		if err != nil {
			return fmt.Errorf("retention policy %s: %w", rp.Name, err)
		}
		m.Change(func(s *mover.Stats) { s.Policies++ })
	}
	return nil
}

func forever(d time.Duration) string {
	if d == 0 {
		return "forever"
	}
	return d.String()
}

// Define implements mover.Sink.
func (s *Sink) Define(ctx context.Context, d *exchange.Definitions) (exchange.Defined, error) {
	return exchange.MakeDefinitions(ctx, s.store, d)
}
