package transfer

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"slices"
	"strconv"

	"tsdbd/meta"
	"tsdbd/model"
)

// Filter chooses data. The zero value is everything.
type Filter struct {
	Database        string          `json:"database,omitempty"`
	RetentionPolicy string          `json:"retention_policy,omitempty"`
	Shards          []uint64        `json:"shards,omitempty"`
	Measurements    []string        `json:"measurements,omitempty"` // names; with * and ? as patterns
	Range           model.TimeRange `json:"range"`
}

// Times returns the filter's range; the zero Range is all time.
func (f *Filter) Times() model.TimeRange {
	if f.Range == (model.TimeRange{}) {
		return model.AllTime
	}
	return f.Range
}

// Check refuses a filter that names what the catalog lacks.
func (f *Filter) Check(data *meta.Data) error {
	if f.Database == "" {
		if f.RetentionPolicy != "" {
			return errors.New("a retention policy can be chosen only together with its database")
		}
	} else {
		d := data.Database(f.Database)
		if d == nil {
			return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, f.Database)
		}
		if f.RetentionPolicy != "" && d.RetentionPolicy(f.RetentionPolicy) == nil {
			return fmt.Errorf("%w: %s", meta.ErrRetentionPolicyNotFound, f.RetentionPolicy)
		}
	}
	for _, id := range f.Shards {
		if _, ok := data.Shard(id); !ok {
			return fmt.Errorf("%w: %d", meta.ErrShardNotFound, id)
		}
	}
	for _, m := range f.Measurements {
		if _, err := path.Match(m, ""); err != nil {
			return fmt.Errorf("measurement pattern %q: %w", m, err)
		}
	}
	return nil
}

func (f *Filter) WantsPolicy(d *meta.Database, rp *meta.RetentionPolicy) bool {
	return (f.Database == "" || f.Database == d.Name) && (f.RetentionPolicy == "" || f.RetentionPolicy == rp.Name)
}

// WantsShard reports whether a shard may hold chosen rows.
func (f *Filter) WantsShard(d *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup, id uint64) bool {
	return f.WantsPolicy(d, rp) && g.TimeRange().Overlaps(f.Times()) && (len(f.Shards) == 0 || slices.Contains(f.Shards, id))
}

// WantsMeasurement reports whether the rows of a measurement may be chosen.
func (f *Filter) WantsMeasurement(name string) bool {
	if len(f.Measurements) == 0 {
		return true
	}
	return slices.ContainsFunc(f.Measurements, func(p string) bool {
		ok, _ := path.Match(p, name)
		return ok || p == name
	})
}

// policies returns the chosen policies of a database, the default one first.
func (f *Filter) policies(d *meta.Database) []*meta.RetentionPolicy {
	var out []*meta.RetentionPolicy
	for _, rp := range d.RetentionPolicies {
		if !f.WantsPolicy(d, rp) {
			continue
		}
		if rp.Name == d.DefaultRetentionPolicy {
			out = slices.Insert(out, 0, rp)
		} else {
			out = append(out, rp)
		}
	}
	return out
}

// Params returns a filter as the endpoints take it.
func (f *Filter) Params() url.Values {
	p := url.Values{}
	set := func(k, v string) {
		if v != "" {
			p.Set(k, v)
		}
	}
	set("db", f.Database)
	set("rp", f.RetentionPolicy)
	for _, id := range f.Shards {
		p.Add("shard", strconv.FormatUint(id, 10))
	}
	for _, m := range f.Measurements {
		p.Add("measurement", m)
	}
	t := f.Times()
	set("start", strconv.FormatInt(t.Min, 10))
	set("end", strconv.FormatInt(t.Max, 10))
	return p
}

// ParseFilter reads what Filter.Params writes.
func ParseFilter(p url.Values) (f Filter, err error) {
	f.Database, f.RetentionPolicy, f.Measurements = p.Get("db"), p.Get("rp"), p["measurement"]
	for _, s := range p["shard"] {
		id, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			return f, fmt.Errorf("shard %q is not a number", s)
		}
		f.Shards = append(f.Shards, id)
	}
	f.Range = model.AllTime
	for name, to := range map[string]*int64{"start": &f.Range.Min, "end": &f.Range.Max} {
		if s := p.Get(name); s != "" {
			if *to, err = strconv.ParseInt(s, 10, 64); err != nil {
				return f, fmt.Errorf("%s %q is not a time in nanoseconds", name, s)
			}
		}
	}
	if f.Range.Empty() {
		return f, errors.New("end lies before start")
	}
	return f, nil
}
