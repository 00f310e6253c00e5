package influxhttp

import (
	"context"
	"errors"
	"sync/atomic"
	"time"

	"tsdbd/model"
	"tsdbd/transfer"
	"tsdbd/transfer/journal"
)

// Slices are halved where a server cannot answer them, and where they have many more
// rows than sliceRows: an import that was killed repeats what it had of a slice.
const (
	sliceRows = 4_000_000
	sliceTime = 2 * time.Minute
	// presentTime is how much time around the present is not noted in the journal,
	// because rows still come.
	presentTime = time.Minute
	// shortest is the shortest slice that is halved.
	shortest = int64(time.Millisecond)
)

// depth is how often the slices of a measurement are halved before they are asked for.
type depth struct{ atomic.Int32 }

// slicer takes a slice of a measurement, by halves if needed.
type slicer struct {
	*Pull
	*stretch
	weight  float64          // of the slice in Stats.Done
	journal *journal.Journal // nil: nothing is noted
	newest  *int64           // receives the newest time of a row, if set
}

// take takes a part of the slice that was halved level times.
func (s *slicer) take(ctx context.Context, r model.TimeRange, level int32) error {
	if err := ctx.Err(); err != nil {
		return context.Cause(ctx)
	}
	name := partName(s.measurement, r)
	if s.journal != nil && s.journal.Done(name) {
		refused := s.journal.Refused(name)
		s.add(func(st *Stats) {
			st.Done += int64(s.weight)
			st.Skipped++
			st.earlier += refused.Count
			st.Add(transfer.ImportStats{Errors: refused.Reasons})
		})
		return nil
	}
	now := s.source.now().UnixNano()
	present := r.Max >= now
	length := r.Max - r.Min // of all time it is negative
	if length < 0 || length >= 2*shortest {
		switch {
		case level < s.depth.Load(),
			s.opt.Slice > 0 && (length < 0 || length >= int64(s.opt.Slice)),
			s.journal != nil && present && r.Min < now && (length < 0 || length > int64(presentTime)),
			s.journal != nil && s.journal.Done("halves of "+name):
			return s.halves(ctx, r, level)
		}
	}
	attempts := 0
	for w := s.newWait(); ; {
		began := time.Now()
		c, stats, ofTarget, err := s.copy(ctx, s.measurement, r)
		if err == nil {
			s.learn(c.rows, time.Since(began), level)
			if s.journal != nil && !present && c.rows+int64(len(c.errors)) > 0 {
				if err := s.opt.Refused.Sync(); err != nil {
					return err
				}
				if err := s.journal.Finish(name, journal.Refused{Count: stats.Failed + c.refused, Reasons: stats.Errors}); err != nil {
					return err
				}
			}
			if s.newest != nil {
				*s.newest = max(*s.newest, c.newest)
			}
			s.add(func(st *Stats) {
				st.ImportStats.Add(stats)
				st.Done += int64(s.weight)
				st.newest = max(st.newest, c.newest)
			})
			return nil
		}
		if ctx.Err() != nil || ofTarget && !away(err) {
			return err
		}
		if ofTarget {
			if err := w.pause(ctx, err); err != nil {
				return err
			}
			continue
		}
		attempts++
		what := judge(err)
		if what == split || what == again && attempts > 2 && c.rows > 0 {
			if length >= 0 && length < 2*shortest {
				return err
			}
			if errors.Is(err, errStalled) {
				s.report("%v; asking for half of it", err)
			}
			if s.journal != nil {
				if err := s.journal.Finish("halves of "+name, journal.Refused{}); err != nil {
					return err
				}
			}
			return s.halves(ctx, r, level)
		}
		if what == give {
			return err
		}
		if err := w.pause(ctx, err); err != nil {
			return err
		}
	}
}

// halves takes both halves of a part.
func (s *slicer) halves(ctx context.Context, r model.TimeRange, level int32) error {
	half := *s
	half.weight /= 2
	middle := r.Min + int64(uint64(r.Max-r.Min)/2)
	if err := half.take(ctx, model.TimeRange{Min: r.Min, Max: middle}, level+1); err != nil {
		return err
	}
	return half.take(ctx, model.TimeRange{Min: middle + 1, Max: r.Max}, level+1)
}

// learn chooses how small the next slices of the measurement are.
func (s *slicer) learn(rows int64, took time.Duration, level int32) {
	switch {
	case rows > sliceRows || took > sliceTime:
		s.depth.Store(min(level+1, 20))
	case rows < sliceRows/8 && took < sliceTime/8 && level > 0 && level == s.depth.Load():
		s.depth.Store(level - 1)
	}
}
