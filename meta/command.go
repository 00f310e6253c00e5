package meta

import (
	"fmt"
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
// write limits.
type RetentionPolicySpec struct {
	Name               string
	Duration           *time.Duration `json:",omitempty"`
	ReplicaN           *int           `json:",omitempty"`
	ShardGroupDuration *time.Duration `json:",omitempty"`
	FutureWriteLimit   *time.Duration `json:",omitempty"`
	PastWriteLimit     *time.Duration `json:",omitempty"`
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
}

// DropShardGroup removes a group and its shards.
type DropShardGroup struct {
	Database, RetentionPolicy string
	ID                        uint64
	// IfDuration, if not 0, says that the group has expired. It makes the command
	// fail with ErrIndexChanged when the policy no longer keeps its data for this
	// long: the decision was made from an older catalog.
	IfDuration time.Duration `json:",omitempty"`
}

// DropShard removes a shard, and its group with the last one.
type DropShard struct{ ID uint64 }

func (c CreateDatabase) apply(d *Data) (bool, error) {
	if err := CheckName(c.Name); err != nil {
		return false, err
	}
	db := d.findDatabase(c.Name)
	if db == nil {
		d.LastDatabaseID++
		db = &Database{ID: d.LastDatabaseID, Name: c.Name}
		if !c.WithoutPolicy {
			var spec RetentionPolicySpec
			if c.Policy != nil {
				spec = *c.Policy
			}
			rp, err := newRetentionPolicy(spec, c.Shards)
			if err != nil {
				return false, err
			}
			db.RetentionPolicies = []*RetentionPolicy{rp}
			db.DefaultRetentionPolicy = rp.Name
		}
		d.Databases = append(d.Databases, db)
		return true, nil
	}
	if c.Policy == nil || c.WithoutPolicy {
		return false, nil
	}
	want, err := newRetentionPolicy(*c.Policy, c.Shards)
	if err != nil {
		return false, err
	}
	if len(db.RetentionPolicies) == 0 {
		next := *db
		next.RetentionPolicies = []*RetentionPolicy{want}
		next.DefaultRetentionPolicy = want.Name
		d.replaceDatabase(&next)
		return true, nil
	}
	have := db.RetentionPolicy(want.Name)
	if have == nil || !c.Policy.matches(have, c.Shards) || db.DefaultRetentionPolicy != want.Name {
		return false, ErrRetentionPolicyConflict
	}
	return false, nil
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
			next.Privileges = clonePrivileges(u.Privileges)
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
	db := d.findDatabase(c.Database)
	if db == nil {
		return false, databaseNotFound(c.Database)
	}
	if have := db.RetentionPolicy(rp.Name); have != nil {
		if !have.sameDefinition(rp) {
			return false, ErrRetentionPolicyExists
		}
		if c.Default && db.DefaultRetentionPolicy != rp.Name {
			return false, ErrRetentionPolicyConflict
		}
		return false, nil
	}
	next := *db
	next.RetentionPolicies = append(slices.Clip(db.RetentionPolicies), rp)
	if c.Default {
		next.DefaultRetentionPolicy = rp.Name
	}
	d.replaceDatabase(&next)
	return true, nil
}

func (c AlterRetentionPolicy) apply(d *Data) (bool, error) {
	db, have, err := d.findPolicy(c.Database, c.Policy.Name)
	if err != nil {
		return false, err
	}
	p := c.Policy
	rp := *have
	if p.Duration != nil {
		if err := checkDuration(*p.Duration); err != nil {
			return false, err
		}
		rp.Duration = *p.Duration
	}
	if p.ShardGroupDuration != nil {
		rp.ShardGroupDuration = c.Shards.normalise(*p.ShardGroupDuration, rp.Duration)
	}
	if (p.Duration != nil || p.ShardGroupDuration != nil) && rp.Duration > 0 && rp.Duration < rp.ShardGroupDuration {
		return false, ErrIncompatibleDurations
	}
	for _, t := range db.Downsamples {
		if err := t.covered(&rp); err != nil && t.From == rp.Name {
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
	makeDefault := c.Default && db.DefaultRetentionPolicy != rp.Name
	if have.sameDefinition(&rp) && !makeDefault {
		return false, nil
	}
	next := *db
	if makeDefault {
		next.DefaultRetentionPolicy = rp.Name
	}
	next.replacePolicy(&rp)
	d.replaceDatabase(&next)
	return true, nil
}

func (c DropRetentionPolicy) apply(d *Data) (bool, error) {
	db := d.findDatabase(c.Database)
	if db == nil || db.RetentionPolicy(c.Name) == nil {
		return false, nil
	}
	next := *db
	d.dropGroups(db.RetentionPolicy(c.Name).ShardGroups...)
	next.RetentionPolicies = slices.DeleteFunc(slices.Clone(db.RetentionPolicies),
		func(rp *RetentionPolicy) bool { return rp.Name == c.Name })
	next.Downsamples = slices.DeleteFunc(slices.Clone(db.Downsamples),
		func(t Downsample) bool { return t.From == c.Name || t.Into == c.Name })
	d.replaceDatabase(&next)
	return true, nil
}

func (c CreateShardGroup) apply(d *Data) (bool, error) {
	if c.Time < model.MinTime || c.Time > model.MaxTime {
		return false, fmt.Errorf("%w: %d", ErrTimeOutOfRange, c.Time)
	}
	db, have, err := d.findPolicy(c.Database, c.RetentionPolicy)
	if err != nil {
		return false, err
	}
	at := have.firstEndingAfter(c.Time)
	if at < len(have.ShardGroups) && have.ShardGroups[at].Contains(c.Time) {
		return false, nil
	}
	start, end := GroupBounds(c.Time, have.ShardGroupDuration)
	if at > 0 {
		start = max(start, have.ShardGroups[at-1].End)
	}
	if at < len(have.ShardGroups) {
		end = min(end, have.ShardGroups[at].Start)
	}
	d.LastShardGroupID++
	d.LastShardID++
	group := ShardGroup{ID: d.LastShardGroupID, Start: start, End: end, Shards: []Shard{{ID: d.LastShardID}}}
	rp := *have
	rp.ShardGroups = slices.Insert(slices.Clone(have.ShardGroups), at, group)
	d.replaceGroups(db, &rp)
	return true, nil
}

func (c CreateShardGroups) apply(d *Data) (bool, error) {
	changed := false
	for _, t := range c.Times {
		made, err := CreateShardGroup{Database: c.Database, RetentionPolicy: c.RetentionPolicy, Time: t}.apply(d)
		if err != nil {
			return false, err
		}
		changed = changed || made
	}
	return changed, nil
}

func (c DropShardGroup) apply(d *Data) (bool, error) {
	db, have, err := d.findPolicy(c.Database, c.RetentionPolicy)
	if err != nil {
		return false, err
	}
	if c.IfDuration != 0 && c.IfDuration != have.Duration {
		return false, fmt.Errorf("%w: policy %s keeps data for %v", ErrIndexChanged, have.Name, have.Duration)
	}
	i := slices.IndexFunc(have.ShardGroups, func(g ShardGroup) bool { return g.ID == c.ID })
	if i < 0 {
		return false, fmt.Errorf("%w: %d", ErrShardGroupNotFound, c.ID)
	}
	d.dropGroups(have.ShardGroups[i])
	rp := *have
	rp.ShardGroups = slices.Delete(slices.Clone(have.ShardGroups), i, i+1)
	if c.IfDuration != 0 {
		rp.Expired = max(rp.Expired, have.ShardGroups[i].End)
	}
	d.replaceGroups(db, &rp)
	return true, nil
}

func (c DropShard) apply(d *Data) (bool, error) {
	at, ok := d.Shard(c.ID)
	if !ok {
		return false, ErrShardNotFound
	}
	d.Dropped.Shards = append(slices.Clip(d.Dropped.Shards), c.ID)
	rp := *at.Policy
	rp.ShardGroups = slices.Clone(rp.ShardGroups)
	i := slices.IndexFunc(rp.ShardGroups, func(g ShardGroup) bool { return g.ID == at.Group.ID })
	g := &rp.ShardGroups[i]
	g.Shards = slices.DeleteFunc(slices.Clone(g.Shards), func(s Shard) bool { return s.ID == c.ID })
	if len(g.Shards) == 0 {
		rp.ShardGroups = slices.Delete(rp.ShardGroups, i, i+1)
	}
	d.replaceGroups(at.Database, &rp)
	return true, nil
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
		rule.normalise(group, rp.Duration) == rp.ShardGroupDuration
}

// sameDefinition compares what statements define.
func (rp *RetentionPolicy) sameDefinition(o *RetentionPolicy) bool {
	return rp.Name == o.Name && rp.Duration == o.Duration && rp.ReplicaN == o.ReplicaN &&
		rp.ShardGroupDuration == o.ShardGroupDuration &&
		rp.FutureWriteLimit == o.FutureWriteLimit && rp.PastWriteLimit == o.PastWriteLimit
}

func (d *Data) findDatabase(name string) *Database {
	for _, db := range d.Databases {
		if db.Name == name {
			return db
		}
	}
	return nil
}

func (d *Data) findPolicy(database, policy string) (*Database, *RetentionPolicy, error) {
	db := d.findDatabase(database)
	if db == nil {
		return nil, nil, databaseNotFound(database)
	}
	if policy == "" {
		policy = db.DefaultRetentionPolicy
	}
	rp := db.RetentionPolicy(policy)
	if rp == nil {
		return nil, nil, retentionPolicyNotFound(policy)
	}
	return db, rp, nil
}

func (d *Data) replaceDatabase(db *Database) {
	for i := range d.Databases {
		if d.Databases[i].Name == db.Name {
			d.Databases[i] = db
		}
	}
}

func (db *Database) replacePolicy(rp *RetentionPolicy) {
	db.RetentionPolicies = slices.Clone(db.RetentionPolicies)
	for i := range db.RetentionPolicies {
		if db.RetentionPolicies[i].Name == rp.Name {
			db.RetentionPolicies[i] = rp
		}
	}
}

func (d *Data) replaceGroups(db *Database, rp *RetentionPolicy) {
	next := *db
	next.replacePolicy(rp)
	d.replaceDatabase(&next)
}
