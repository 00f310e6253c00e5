package promscripts

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/queryable"
	"tsdbd/store"
)

const database = "p"

// tested is a store as the scripts see it.
type tested struct {
	dir    string
	merged bool // a load ends when each shard has one file
	store  *store.Store
	held   int64 // bytes that queriers have charged
}

func newTested(t testing.TB, merged bool) *tested {
	opt := store.Options{SyncInterval: time.Second, RetentionInterval: -1}
	if merged {
		opt.FlushBytes, opt.CompactAfter = 1, time.Nanosecond
	}
	dir := t.TempDir()
	s, err := store.Open(dir, opt)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Apply(context.Background(), meta.CreateDatabase{Name: database}); err != nil {
		t.Fatal(err)
	}
	return &tested{dir: dir, merged: merged, store: s}
}

// Querier implements storage.Queryable.
func (s *tested) Querier(mint, maxt int64) (storage.Querier, error) {
	source := queryable.Source{Storage: s.store, DB: database, Charge: func(bytes int64) error {
		s.held += bytes
		return nil
	}}
	return source.Querier(mint, maxt)
}

// ChunkQuerier implements storage.Storage.
func (s *tested) ChunkQuerier(_, _ int64) (storage.ChunkQuerier, error) {
	return nil, errors.New("no chunks")
}

// Appender implements storage.Storage.
func (s *tested) Appender(context.Context) storage.Appender { return nil }

// AppenderV2 implements storage.Storage.
func (s *tested) AppenderV2(ctx context.Context) storage.AppenderV2 {
	a := &appender{ctx: ctx, to: s}
	a.begin()
	return a
}

// StartTime implements storage.Storage.
func (s *tested) StartTime() (int64, error) { return 0, nil }

// Close implements storage.Storage.
func (s *tested) Close() error {
	if s.held != 0 {
		return fmt.Errorf("queriers hold %d bytes", s.held)
	}
	return s.store.Close()
}

// wait waits until no rows are in memory and no shard has more files than that.
func (s *tested) wait(files int) error {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
		done := true
		for _, sh := range s.store.Figures().Shards {
			names, err := filepath.Glob(filepath.Join(s.dir, "db-*", fmt.Sprintf("shard-%d", sh.ID), "*.tsm"))
			if err != nil {
				return err
			}
			done = done && len(names) > 0 && len(names) <= files && sh.CacheBytes == 0
		}
		if done {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the shards are not merged: %+v", s.store.Figures().Shards)
		}
	}
}

// appender writes samples as remote write does.
type appender struct {
	ctx   context.Context
	to    *tested
	batch point.Batch
	rows  prom.Rows
	err   error
}

func (a *appender) begin() {
	a.batch.Reset()
	table, err := a.to.store.Table(database)
	if err != nil {
		a.err = err
		return
	}
	a.rows.Builder = point.NewBuilder(table, &a.batch)
}

// Append implements storage.AppenderV2.
func (a *appender) Append(_ storage.SeriesRef, ls labels.Labels, start, at int64, v float64, h *histogram.Histogram, fh *histogram.FloatHistogram, _ storage.AppendV2Options) (storage.SeriesRef, error) {
	if a.err != nil {
		return 0, a.err
	}
	var tags model.Tags
	ls.Range(func(l labels.Label) { tags = append(tags, model.Tag{Key: l.Name, Value: l.Value}) })
	var err error
	if h != nil || fh != nil {
		err = a.rows.Add(tags, nil, []prom.Histogram{{Time: at, Start: start, Int: h, Float: fh}})
	} else {
		err = a.rows.Add(tags, []prom.Sample{{Value: v, Time: at, Start: start}}, nil)
	}
	if err == nil && a.rows.Refused > 0 {
		err = fmt.Errorf("%s: %s", ls, a.rows.Reason)
	}
	return 0, err
}

// Commit implements storage.AppenderV2.
func (a *appender) Commit() error {
	if a.err != nil || !a.to.merged {
		return errors.Join(a.err, a.to.store.Write(a.ctx, database, "", &a.batch))
	}
	// Every other row goes into one file, the rest into another. They overlap, so
	// that a merge decodes and encodes their rows.
	rows := a.batch.Rows
	for odd := range 2 {
		half := point.Batch{Database: a.batch.Database, Values: a.batch.Values, Strings: a.batch.Strings}
		for i := odd; i < len(rows); i += 2 {
			half.Rows = append(half.Rows, rows[i])
		}
		if len(half.Rows) == 0 {
			continue
		}
		if err := a.to.store.Write(a.ctx, database, "", &half); err != nil {
			return err
		}
		if err := a.to.wait(2 + odd); err != nil {
			return err
		}
	}
	return a.to.wait(1)
}

// Rollback implements storage.AppenderV2.
func (a *appender) Rollback() error { return nil }
