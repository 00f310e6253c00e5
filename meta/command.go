package meta

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"tsdbd/model"
)

// Command is one change of the catalog, such as CreateDatabase. Commands are
// plain data, see EncodeCommand; only this package defines them.
type Command interface {
	// apply changes d, a private copy whose parts are still shared: it
	// replaces parts, never writes into them. It reports whether anything
	// changed.
	apply(d *Data) (bool, error)
}

// Apply returns the catalog after cmd. It returns data itself when cmd asks
// for what already is so, and an error, and no Data, when cmd is refused.
func Apply(cmd Command, data *Data) (*Data, error) {
	next := *data
	next.Databases = slices.Clone(data.Databases)
	next.Users = slices.Clone(data.Users)
	changed, err := cmd.apply(&next)
	if err != nil {
		return nil, err
	}
	if !changed {
		return data, nil
	}
	next.forgetLosses()
	next.Index++
	next.index()
	return &next, nil
}

// RetentionPolicySpec describes a retention policy. What is nil takes its
// default: name autogen, for ever, one copy, group duration by the rule, no
// write limits, the server's age for the cold store.
type RetentionPolicySpec struct {
	Name               string
	Duration           *time.Duration `json:",omitempty"`
	ReplicaN           *int           `json:",omitempty"`
	ShardGroupDuration *time.Duration `json:",omitempty"`
	FutureWriteLimit   *time.Duration `json:",omitempty"`
	PastWriteLimit     *time.Duration `json:",omitempty"`
	ColdAfter          *time.Duration `json:",omitempty"`
}

// DefaultRetentionPolicyName is the name of a policy that was given none.
const DefaultRetentionPolicyName = "autogen"

// CreateDatabase makes a database with a default retention policy. An existing
// database stays as it is; if Policy is given it must then describe the
// database's default policy.
type CreateDatabase struct {
	Name string
	// Policy describes the first policy; nil is autogen with all defaults.
	Policy *RetentionPolicySpec `json:",omitempty"`
	// WithoutPolicy makes a database that has no policy at all.
	WithoutPolicy bool `json:",omitempty"`
	Shards        ShardDurations
}

// DropDatabase removes a database, its policies, groups and grants. A missing
// one is no error.
type DropDatabase struct{ Name string }

// CreateRetentionPolicy makes a policy. The same definition again is no error.
type CreateRetentionPolicy struct {
	Database string
	Policy   RetentionPolicySpec
	Default  bool
	Shards   ShardDurations
}

// AlterRetentionPolicy changes what Policy gives a value for. Groups that exist
// keep their bounds.
type AlterRetentionPolicy struct {
	Database string
	Policy   RetentionPolicySpec // Name says which
	Default  bool                // also make it the default
	Shards   ShardDurations
	Time     int64 `json:",omitempty"` // the wall clock, ns since the epoch; 0: with no Duration
}

// DropRetentionPolicy removes a policy with its groups and its downsamples. A missing
// policy is no error. A default policy's name stays the database's default.
type DropRetentionPolicy struct{ Database, Name string }

// CreateShardGroup makes the group that holds Time, with one shard, unless
// there is one. The group is cut so that it overlaps no other.
type CreateShardGroup struct {
	Database, RetentionPolicy string // "" is the default policy
	Time                      int64  // ns since the epoch
}

// CreateShardGroups is CreateShardGroup for each of Times, in their order, as
// one change.
type CreateShardGroups struct {
	Database, RetentionPolicy string
	Times                     []int64
	// Frees says that the groups are for rows that make room on a full disk. The log does not
	// keep it.
	Frees bool `json:"-"`
}

// DropShardGroup removes a group and its shards.
type DropShardGroup struct {
	Database, RetentionPolicy string
	ID                        uint64
	// IfDuration, if not 0, says that the group has expired. It makes the command
	// fail with ErrIndexChanged when the policy no longer keeps its data for this
	// long: the decision was made from an older catalog.
	IfDuration time.Duration `json:",omitempty"`
	// Uncomputed says that the group goes although windows of downsamples that need it
	// are not computed: it has waited for them for as long as it may.
	Uncomputed bool `json:",omitempty"`
}

// DropShard removes a shard, and its group with the last one.
type DropShard struct{ ID uint64 }

func (c CreateDatabase) apply(d *Data) (bool, error) {
	if err := CheckName(c.Name); err != nil {
		return false, err
	}
	spec := c.Policy
	if spec == nil {
		spec = &RetentionPolicySpec{}
	}
	var rp *RetentionPolicy
	if !c.WithoutPolicy {
		var err error
		if rp, err = newRetentionPolicy(*spec, c.Shards); err != nil {
			return false, err
		}
	}
	exists := slices.ContainsFunc(d.Databases, func(db *Database) bool { return db.Name == c.Name })
	if !exists {
		d.LastDatabaseID++
		d.Databases = append(d.Databases, &Database{ID: d.LastDatabaseID, Name: c.Name})
	} else if c.Policy == nil {
		return false, nil
	}
	if rp == nil {
		return !exists, nil
	}
	return d.changeDatabase(c.Name, func(db *Database) (bool, error) {
		if len(db.RetentionPolicies) == 0 {
			db.RetentionPolicies = []*RetentionPolicy{rp}
			db.DefaultRetentionPolicy = rp.Name
			return true, nil
		}
		have := db.RetentionPolicy(rp.Name)
		if have == nil || !c.Policy.matches(have, c.Shards) || db.DefaultRetentionPolicy != rp.Name {
			return false, ErrRetentionPolicyConflict
		}
		return false, nil
	})
}

func (c DropDatabase) apply(d *Data) (bool, error) {
	i := slices.IndexFunc(d.Databases, func(db *Database) bool { return db.Name == c.Name })
	if i < 0 {
		return false, nil
	}
	d.Dropped.Databases = append(slices.Clip(d.Dropped.Databases), d.Databases[i].ID)
	d.Databases = slices.Delete(d.Databases, i, i+1)
	for i, u := range d.Users {
		if _, ok := u.Privileges[c.Name]; ok {
			next := *u
			next.Privileges = maps.Clone(u.Privileges)
			delete(next.Privileges, c.Name)
			d.Users[i] = &next
		}
	}
	return true, nil
}

func (c CreateRetentionPolicy) apply(d *Data) (bool, error) {
	rp, err := newRetentionPolicy(c.Policy, c.Shards)
	if err != nil {
		return false, err
	}
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		if have := db.RetentionPolicy(rp.Name); have != nil {
			if c.Policy.ColdAfter == nil { // ALTER may have set it since the same statement made the policy
				rp.ColdAfter = have.ColdAfter
			}
			if !have.sameDefinition(rp) {
				return false, ErrRetentionPolicyExists
			}
			if c.Default && db.DefaultRetentionPolicy != rp.Name {
				return false, ErrRetentionPolicyConflict
			}
			return false, nil
		}
		db.RetentionPolicies = append(slices.Clip(db.RetentionPolicies), rp)
		if c.Default {
			db.DefaultRetentionPolicy = rp.Name
		}
		return true, nil
	})
}

func (c AlterRetentionPolicy) apply(d *Data) (bool, error) {
	return d.changePolicy(c.Database, c.Policy.Name, func(db *Database, rp *RetentionPolicy) (bool, error) {
		p, have := c.Policy, *rp
		if p.Duration != nil {
			if err := checkDuration(*p.Duration); err != nil {
				return false, err
			}
			if rp.Duration = *p.Duration; rp.Duration > 0 && (have.Duration == 0 || rp.Duration < have.Duration) {
				rp.Shortened = c.Time
			}
		}
		if p.ShardGroupDuration != nil {
			rp.ShardGroupDuration = c.Shards.normalise(*p.ShardGroupDuration, rp.Duration)
		}
		if (p.Duration != nil || p.ShardGroupDuration != nil) && rp.Duration > 0 && rp.Duration < rp.ShardGroupDuration {
			return false, ErrIncompatibleDurations
		}
		for _, t := range db.Downsamples {
			if err := t.covered(rp); err != nil && t.From == rp.Name {
				return false, err
			}
		}
		if p.ReplicaN != nil {
			if *p.ReplicaN < 1 {
				return false, ErrReplicationFactorTooLow
			}
			rp.ReplicaN = *p.ReplicaN
		}
		if p.FutureWriteLimit != nil {
			rp.FutureWriteLimit = *p.FutureWriteLimit
		}
		if p.PastWriteLimit != nil {
			rp.PastWriteLimit = *p.PastWriteLimit
		}
		if p.ColdAfter != nil {
			rp.ColdAfter = *p.ColdAfter
		}
		makeDefault := c.Default && db.DefaultRetentionPolicy != rp.Name
		if makeDefault {
			db.DefaultRetentionPolicy = rp.Name
		}
		return makeDefault || !have.sameDefinition(rp), nil
	})
}

func (c DropRetentionPolicy) apply(d *Data) (bool, error) {
	changed, err := d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		rp := db.RetentionPolicy(c.Name)
		if rp == nil {
			return false, nil
		}
		d.dropGroups(rp.ShardGroups...)
		db.RetentionPolicies = slices.DeleteFunc(slices.Clone(db.RetentionPolicies), func(o *RetentionPolicy) bool { return o == rp })
		db.RemoveDownsamples(func(t *Downsample) bool { return t.From == c.Name || t.Into == c.Name })
		return true, nil
	})
	if errors.Is(err, ErrDatabaseNotFound) {
		err = nil
	}
	return changed, err
}

func (c CreateShardGroup) apply(d *Data) (bool, error) {
	return CreateShardGroups{Database: c.Database, RetentionPolicy: c.RetentionPolicy, Times: []int64{c.Time}}.apply(d)
}

func (c CreateShardGroups) apply(d *Data) (bool, error) {
	for _, t := range c.Times {
		if t < model.MinTime || t > model.MaxTime {
			return false, fmt.Errorf("%w: %d", ErrTimeOutOfRange, t)
		}
	}
	return d.changePolicy(c.Database, c.RetentionPolicy, func(_ *Database, rp *RetentionPolicy) (changed bool, _ error) {
		for _, t := range c.Times {
			at := rp.firstEndingAfter(t)
			if at < len(rp.ShardGroups) && rp.ShardGroups[at].Contains(t) {
				continue
			}
			start, end := GroupBounds(t, rp.ShardGroupDuration)
			if at > 0 {
				start = max(start, rp.ShardGroups[at-1].End)
			}
			if at < len(rp.ShardGroups) {
				end = min(end, rp.ShardGroups[at].Start)
			}
			d.LastShardGroupID++
			d.LastShardID++
			if !changed { // what there is belongs to others
				rp.ShardGroups = slices.Clone(rp.ShardGroups)
				changed = true
			}
			rp.ShardGroups = slices.Insert(rp.ShardGroups, at, &ShardGroup{ID: d.LastShardGroupID, Start: start, End: end, Shards: []Shard{{ID: d.LastShardID}}})
		}
		return changed, nil
	})
}

func (c DropShardGroup) apply(d *Data) (bool, error) {
	return d.changePolicy(c.Database, c.RetentionPolicy, func(_ *Database, rp *RetentionPolicy) (bool, error) {
		if c.IfDuration != 0 && c.IfDuration != rp.Duration {
			return false, fmt.Errorf("%w: policy %s keeps data for %v", ErrIndexChanged, rp.Name, rp.Duration)
		}
		i := slices.IndexFunc(rp.ShardGroups, func(g *ShardGroup) bool { return g.ID == c.ID })
		if i < 0 {
			return false, fmt.Errorf("%w: %d", ErrShardGroupNotFound, c.ID)
		}
		d.dropGroups(rp.ShardGroups[i])
		if c.IfDuration != 0 {
			rp.Expired = max(rp.Expired, rp.ShardGroups[i].End)
		}
		rp.ShardGroups = slices.Delete(slices.Clone(rp.ShardGroups), i, i+1)
		return true, nil
	})
}

func (c DropShard) apply(d *Data) (bool, error) {
	at, ok := d.Shard(c.ID)
	if !ok {
		return false, ErrShardNotFound
	}
	d.Dropped.Shards = append(slices.Clip(d.Dropped.Shards), c.ID)
	return d.changePolicy(at.Database.Name, at.Policy.Name, func(_ *Database, rp *RetentionPolicy) (bool, error) {
		rp.ShardGroups = slices.Clone(rp.ShardGroups)
		i := slices.IndexFunc(rp.ShardGroups, func(g *ShardGroup) bool { return g.ID == at.Group.ID })
		g := *at.Group
		g.Shards = slices.DeleteFunc(slices.Clone(g.Shards), func(s Shard) bool { return s.ID == c.ID })
		if len(g.Shards) == 0 {
			rp.ShardGroups = slices.Delete(rp.ShardGroups, i, i+1)
		} else {
			rp.ShardGroups[i] = &g
		}
		return true, nil
	})
}

// changeDatabase replaces a database by a copy that change has changed, if it says so.
func (d *Data) changeDatabase(name string, change func(db *Database) (bool, error)) (bool, error) {
	i := slices.IndexFunc(d.Databases, func(db *Database) bool { return db.Name == name })
	if i < 0 {
		return false, databaseNotFound(name)
	}
	next := *d.Databases[i]
	changed, err := change(&next)
	if changed {
		d.Databases[i] = &next
	}
	return changed, err
}

// changePolicy replaces a policy, "" for the default one, by a copy that change has changed,
// if it says so. db is a copy as well.
func (d *Data) changePolicy(database, policy string, change func(db *Database, rp *RetentionPolicy) (bool, error)) (bool, error) {
	return d.changeDatabase(database, func(db *Database) (bool, error) {
		if policy == "" {
			policy = db.DefaultRetentionPolicy
		}
		i := slices.IndexFunc(db.RetentionPolicies, func(rp *RetentionPolicy) bool { return rp.Name == policy })
		if i < 0 {
			return false, retentionPolicyNotFound(policy)
		}
		next := *db.RetentionPolicies[i]
		changed, err := change(db, &next)
		if changed {
			db.RetentionPolicies = slices.Clone(db.RetentionPolicies)
			db.RetentionPolicies[i] = &next
		}
		return changed, err
	})
}

func checkDuration(d time.Duration) error {
	if d != 0 && d < MinRetentionPolicyDuration {
		return ErrRetentionPolicyDurationTooLow
	}
	return nil
}

func newRetentionPolicy(spec RetentionPolicySpec, rule ShardDurations) (*RetentionPolicy, error) {
	value := func(d *time.Duration) time.Duration {
		if d == nil {
			return 0
		}
		return *d
	}
	rp := &RetentionPolicy{
		Name:             spec.Name,
		Duration:         value(spec.Duration),
		ReplicaN:         1,
		FutureWriteLimit: value(spec.FutureWriteLimit),
		PastWriteLimit:   value(spec.PastWriteLimit),
		ColdAfter:        value(spec.ColdAfter),
	}
	if rp.Name == "" {
		rp.Name = DefaultRetentionPolicyName
	}
	if spec.ReplicaN != nil {
		rp.ReplicaN = *spec.ReplicaN
	}
	rp.ShardGroupDuration = rule.normalise(value(spec.ShardGroupDuration), rp.Duration)
	if err := CheckName(rp.Name); err != nil {
		return nil, err
	}
	if rp.ReplicaN < 1 {
		return nil, ErrReplicationFactorTooLow
	}
	if err := checkDuration(rp.Duration); err != nil {
		return nil, err
	}
	if rp.Duration > 0 && rp.Duration < rp.ShardGroupDuration {
		return nil, ErrIncompatibleDurations
	}
	return rp, nil
}

// matches reports whether rp is what s describes; what s leaves open matches.
func (s *RetentionPolicySpec) matches(rp *RetentionPolicy, rule ShardDurations) bool {
	same := func(want *time.Duration, have time.Duration) bool { return want == nil || *want == have }
	var group time.Duration
	if s.ShardGroupDuration != nil {
		group = *s.ShardGroupDuration
	}
	return same(s.Duration, rp.Duration) && (s.ReplicaN == nil || *s.ReplicaN == rp.ReplicaN) &&
		same(s.FutureWriteLimit, rp.FutureWriteLimit) && same(s.PastWriteLimit, rp.PastWriteLimit) &&
		same(s.ColdAfter, rp.ColdAfter) && rule.normalise(group, rp.Duration) == rp.ShardGroupDuration
}

// sameDefinition compares what statements define.
func (rp *RetentionPolicy) sameDefinition(o *RetentionPolicy) bool {
	return rp.Name == o.Name && rp.Duration == o.Duration && rp.ReplicaN == o.ReplicaN &&
		rp.ShardGroupDuration == o.ShardGroupDuration &&
		rp.FutureWriteLimit == o.FutureWriteLimit && rp.PastWriteLimit == o.PastWriteLimit && rp.ColdAfter == o.ColdAfter
}
