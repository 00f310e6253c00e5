package exchange

import (
	"errors"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strconv"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
)

// Filter chooses data. The zero value is everything.
type Filter struct {
	Database        string   `json:"database,omitempty"`
	RetentionPolicy string   `json:"retention_policy,omitempty"`
	Shards          []uint64 `json:"shards,omitempty"`
	// Measurements are names, patterns with * and ?, and regular expressions between
	// slashes.
	Measurements []string        `json:"measurements,omitempty"`
	Range        model.TimeRange `json:"range"`
	// Partial takes what is left where damage has taken points. Without it that is an
	// error.
	Partial bool `json:"partial,omitempty"`
}

// View returns what the filter takes of a policy.
func (f *Filter) View(src scan.Storage, d *meta.Database, rp *meta.RetentionPolicy) (scan.View, error) {
	if f.Partial {
		src = src.Partial()
	}
	return src.View(d.Name, rp.Name, f.Times())
}

// CheckWhole returns an error if damage has taken something of what the filter takes.
func (f *Filter) CheckWhole(src scan.Storage, data *meta.Data) error {
	for _, d := range data.Databases {
		for _, rp := range f.policies(d) {
			view, err := f.View(src, d, rp)
			if err != nil {
				return fmt.Errorf("%s.%s: %w", d.Name, rp.Name, err)
			}
			view.Release()
		}
	}
	return nil
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
	return f.CheckMeasurements()
}

// CheckMeasurements refuses patterns that are none.
func (f *Filter) CheckMeasurements() error {
	for _, m := range f.Measurements {
		_, err := path.Match(m, "")
		if re, ok := expression(m); ok {
			_, err = regexp.Compile(re)
		}
		if err != nil {
			return fmt.Errorf("measurement pattern %q: %w", m, err)
		}
	}
	return nil
}

// expression returns the regular expression of a pattern that is one: /.../.
func expression(pattern string) (string, bool) {
	if n := len(pattern); n > 2 && pattern[0] == '/' && pattern[n-1] == '/' {
		return pattern[1 : n-1], true
	}
	return "", false
}

func (f *Filter) WantsPolicy(d *meta.Database, rp *meta.RetentionPolicy) bool {
	return (f.Database == "" || f.Database == d.Name) && (f.RetentionPolicy == "" || f.RetentionPolicy == rp.Name)
}

// WantsShard reports whether a shard may hold chosen rows.
func (f *Filter) WantsShard(d *meta.Database, rp *meta.RetentionPolicy, g *meta.ShardGroup, id uint64) bool {
	return f.WantsPolicy(d, rp) && g.TimeRange().Overlaps(f.Times()) && (len(f.Shards) == 0 || slices.Contains(f.Shards, id))
}

// WantsMeasurement reports whether the rows of a measurement may be chosen.
func (f *Filter) WantsMeasurement(name string) bool { return f.Wanted()(name) }

// Wanted returns WantsMeasurement for many names: it reads the patterns once.
func (f *Filter) Wanted() func(name string) bool {
	if len(f.Measurements) == 0 {
		return func(string) bool { return true }
	}
	expressions := make([]*regexp.Regexp, len(f.Measurements))
	for i, m := range f.Measurements {
		if text, ok := expression(m); ok {
			expressions[i], _ = regexp.Compile(text) // Check has refused those that are none
		}
	}
	return func(name string) bool {
		for i, p := range f.Measurements {
			if p == name || expressions[i] != nil && expressions[i].MatchString(name) {
				return true
			}
			if ok, _ := path.Match(p, name); ok {
				return true
			}
		}
		return false
	}
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
	if f.Partial {
		set("partial", "true")
	}
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
	f.Partial = p.Get("partial") == "true"
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
