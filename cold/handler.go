package cold

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"time"

	"tsdbd/cold/names"
	"tsdbd/internal/coldcache"
	"tsdbd/meta"
	"tsdbd/shard"
)

// Path is that of the HTTP API: GET answers with a Status, POST with a Report of what the
// parameter do has asked for: verify, sweep, fetch or claim.
const Path = "/api/tsdbd/cold"

// Status says what is in the cold store.
type Status struct {
	Place   string  `json:"place"`
	ID      string  `json:"id"`
	Node    string  `json:"node"`
	After   string  `json:"after"`
	Problem string  `json:"problem"` // "": none
	Shards  []Shard `json:"shards"`
	Bytes   int64   `json:"bytes"`
	Objects int     `json:"objects"`
	// Unneeded is how many objects nobody needs, which go after the time of grace.
	Unneeded int       `json:"unneeded"`
	Purged   time.Time `json:"purged"` // when deleted rows were looked for
	Counters
	Cache *coldcache.Stats `json:"cache,omitempty"`
}

// Shard is a shard with files in the cold store.
type Shard struct {
	Database string    `json:"db"`
	Policy   string    `json:"rp"`
	ID       uint64    `json:"shard"`
	End      time.Time `json:"end"`
	Bytes    int64     `json:"bytes"`
	Local    int64     `json:"local_bytes"`
	Objects  int       `json:"objects"`
}

// Report is what a request has done.
type Report struct {
	Objects  int       `json:"objects"` // that were looked at
	Bytes    int64     `json:"bytes"`
	Shards   int       `json:"shards"` // that were changed
	Removed  int       `json:"removed"`
	Problems []Problem `json:"problems"`
}

// Problem is an object that is not as it should be.
type Problem struct {
	Database string `json:"db"`
	Policy   string `json:"rp"`
	Shard    uint64 `json:"shard"`
	Object   string `json:"object"`
	Reason   string `json:"reason"`
}

// Status returns what is in the cold store.
func (s *Service) Status(ctx context.Context) Status {
	st := Status{Place: s.opt.Place.String(), ID: s.opt.ID, Node: s.opt.Node, After: s.opt.After.String(), Shards: []Shard{}}
	err := s.each(ctx, func(at meta.ShardLocation, sh *shard.Shard) error {
		held := sh.Cold()
		if len(held.Cold) == 0 {
			return nil
		}
		local, _ := sh.DiskBytes()
		st.Shards = append(st.Shards, Shard{at.Database.Name, at.Policy.Name, sh.ID(), time.Unix(0, at.Group.End).UTC(), held.Bytes, local, len(held.Cold)})
		st.Bytes += held.Bytes
		st.Objects += len(held.Cold)
		return nil
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if err = cmp.Or(s.mu.failed, err); err != nil {
		st.Problem = err.Error()
	}
	st.Unneeded, st.Purged, st.Counters = len(s.mu.state.Unneeded), s.mu.state.Purged, s.mu.Counters
	if s.opt.Cache != nil {
		c := s.opt.Cache()
		st.Cache = &c
	}
	return st
}

// ServeHTTP answers requests for Path.
func (s *Service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	fail := func(status int, err error) {
		w.WriteHeader(status)
		_ = json.NewEncoder(w).Encode(map[string]string{"error": err.Error()})
	}
	switch r.Method {
	case http.MethodGet, http.MethodHead:
		_ = json.NewEncoder(w).Encode(s.Status(r.Context())) // the client is gone
		return
	case http.MethodPost:
	default:
		w.Header().Set("Allow", "GET, HEAD, POST")
		fail(http.StatusMethodNotAllowed, errors.New("method not allowed"))
		return
	}
	do, err := s.request(r)
	if err != nil {
		fail(http.StatusBadRequest, err)
		return
	}
	report := &Report{Problems: []Problem{}}
	if err := s.alone(r.Context(), func() error { return do(r.Context(), report) }); err != nil {
		fail(http.StatusServiceUnavailable, err)
		return
	}
	_ = json.NewEncoder(w).Encode(report)
}

// request returns what a request asks for.
func (s *Service) request(r *http.Request) (func(context.Context, *Report) error, error) {
	p := r.URL.Query()
	var shards []uint64
	for _, text := range p["shard"] {
		id, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, errors.New("shard is not a number: " + text)
		}
		shards = append(shards, id)
	}
	chosen := func(at meta.ShardLocation, id uint64) bool {
		return (p.Get("db") == "" || at.Database.Name == p.Get("db")) && (p.Get("rp") == "" || at.Policy.Name == p.Get("rp")) &&
			(len(shards) == 0 || slices.Contains(shards, id))
	}
	switch p.Get("do") {
	case "verify":
		return func(ctx context.Context, to *Report) error { return s.verify(ctx, to, chosen, p.Get("deep") == "true") }, nil
	case "sweep":
		return func(ctx context.Context, to *Report) error {
			err := s.sweepNow(ctx, to)
			if ctx.Err() == nil && !names.InUse(err) {
				s.note(err) // it has done what a round does
			}
			return err
		}, nil
	case "fetch":
		return func(ctx context.Context, to *Report) error { return s.fetch(ctx, to, chosen) }, nil
	case "claim":
		return func(ctx context.Context, _ *Report) error {
			return s.claimOwner(ctx, true)
		}, nil
	}
	return nil, errors.New("do is verify, sweep, fetch or claim")
}

// verify looks at every object: whether it is there, its size and, if deep is set, its
// content.
func (s *Service) verify(ctx context.Context, to *Report, chosen func(meta.ShardLocation, uint64) bool, deep bool) error {
	if err := s.opt.FS.MkdirAll(s.opt.Dir); err != nil {
		return err
	}
	return s.each(ctx, func(at meta.ShardLocation, sh *shard.Shard) error {
		held, err := sh.Export()
		if held == nil || err != nil || !chosen(at, sh.ID()) {
			if held != nil {
				held.Release()
			}
			return err
		}
		defer held.Release()
		for i := range held.Manifest.TSM {
			f := &held.Manifest.TSM[i]
			if !f.Cold() {
				continue
			}
			to.Objects++
			to.Bytes += f.Size
			damage, err := s.stat(ctx, f)
			if err == nil && deep {
				err = s.checkContent(ctx, f)
				damage = isDamage(err)
			}
			if err != nil && !damage {
				return err
			}
			if err != nil {
				to.Problems = append(to.Problems, Problem{at.Database.Name, at.Policy.Name, sh.ID(), f.Object(), err.Error()})
			}
		}
		return nil
	})
}

// sweepNow takes deleted rows out of the store, and removes what nobody has needed for the
// time of grace.
func (s *Service) sweepNow(ctx context.Context, to *Report) (err error) {
	if to.Shards, err = s.purge(ctx, true); err != nil {
		return err
	}
	if err := s.chill(ctx, s.opt.Now()); err != nil {
		return err
	}
	if used, err := s.used(ctx); !used || err != nil {
		return err
	}
	if err := s.claim(ctx); err != nil {
		return err
	}
	if err := s.publishState(ctx); err != nil {
		return err
	}
	to.Removed, err = s.sweep(ctx)
	return errors.Join(err, s.losses())
}

// fetch brings shards back from the store.
func (s *Service) fetch(ctx context.Context, to *Report, chosen func(meta.ShardLocation, uint64) bool) error {
	return s.each(ctx, func(at meta.ShardLocation, sh *shard.Shard) error {
		if !chosen(at, sh.ID()) {
			return nil
		}
		if err := s.setReturns(sh.ID(), false); err != nil {
			return err
		}
		held := sh.Cold()
		if len(held.Cold) == 0 {
			return nil
		}
		did, err := sh.Thaw(ctx, s)
		if did {
			to.Shards++
			to.Objects += len(held.Cold)
			to.Bytes += held.Bytes
		}
		return err
	})
}
