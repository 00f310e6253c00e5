package meta

import (
	"cmp"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"tsdbd/internal/identity"
	"tsdbd/model"
)

// Data is the catalog as of one Index. It and all that it points to are
// immutable: a change makes a new Data that shares what did not change.
type Data struct {
	// Lineage is that of the data directory.
	Lineage identity.Lineage
	// Index counts the changes; 0 is the empty catalog.
	Index uint64
	// Applied is the sequence in the log of the last change applied; 0: none.
	Applied uint64 `json:",omitempty"`
	// The last ids given out. They never go down.
	LastDatabaseID   uint32
	LastShardGroupID uint64
	LastShardID      uint64

	Databases []*Database // in order of creation
	Users     []*User     // in order of creation

	// LogFormat is the form in which the log of a cluster is written; 0: the first.
	LogFormat uint8 `json:",omitempty"`

	// AcceptedLosses are those of queries that do not fail.
	AcceptedLosses []AcceptedLoss `json:",omitempty"`

	// Dropped names what was dropped and may still have files.
	Dropped Dropped `json:",omitzero"`

	byName map[string]*Database
}

// Dropped names databases and shards that are no longer in the catalog and
// whose directories may not be removed yet. A directory that the catalog names
// neither elsewhere nor here was not dropped: it must not be removed.
type Dropped struct {
	Databases []uint32 `json:",omitempty"`
	Shards    []uint64 `json:",omitempty"`
}

// without returns what of d is not in removed.
func (d Dropped) without(removed Dropped) Dropped {
	return Dropped{Databases: subtract(d.Databases, removed.Databases), Shards: subtract(d.Shards, removed.Shards)}
}

// withoutDropped returns d without the names of what was removed.
func (d *Data) withoutDropped(removed Dropped) *Data {
	next := *d
	next.Dropped = d.Dropped.without(removed)
	return &next
}

// subtract returns the elements of list that are not in gone, in their order.
func subtract[T comparable](list, gone []T) []T {
	if len(list) == 0 || len(gone) == 0 {
		return list
	}
	out := make(map[T]bool, len(gone))
	for _, x := range gone {
		out[x] = true
	}
	left := slices.DeleteFunc(slices.Clone(list), func(x T) bool { return out[x] })
	if len(left) == 0 {
		return nil
	}
	return left
}

// dropGroups notes the shards of groups that are dropped.
func (d *Data) dropGroups(groups ...*ShardGroup) {
	var ids []uint64
	for _, g := range groups {
		for _, s := range g.Shards {
			ids = append(ids, s.ID)
		}
	}
	d.Dropped.Shards = append(slices.Clip(d.Dropped.Shards), ids...)
}

// Database is a namespace of retention policies that share one series file.
type Database struct {
	ID   uint32 // never reused, also not for a database of the same name
	Name string
	// DefaultRetentionPolicy is what reads and writes without a policy use.
	// The name stays when the policy is dropped.
	DefaultRetentionPolicy string
	RetentionPolicies      []*RetentionPolicy // in order of creation
	ContinuousQueries      []ContinuousQuery  `json:",omitempty"`
	Downsamples            []Downsample       `json:",omitempty"` // in order of creation
	Boards                 []*Board           `json:",omitempty"` // in order of creation
}

// RetentionPolicy says how long data lives and into which groups it is cut.
type RetentionPolicy struct {
	Name               string
	Duration           time.Duration // 0: for ever
	ShardGroupDuration time.Duration
	ReplicaN           int
	// Writes later than now+FutureWriteLimit or earlier than now-PastWriteLimit
	// are refused; 0 is no limit.
	FutureWriteLimit time.Duration `json:",omitempty"`
	PastWriteLimit   time.Duration `json:",omitempty"`
	// ColdAfter is how long after its end a shard goes to the cold store; NeverCold: none does,
	// 0: as the server has it.
	ColdAfter time.Duration `json:",omitempty"`
	// Expired is the end of the latest group that was dropped because of its age; 0:
	// none was. Windows that begin before it may lack rows.
	Expired int64 `json:",omitempty"`
	// Shortened is when statements have last let the policy keep rows for a shorter time; 0: they
	// never have. What has expired by that has not waited before.
	Shortened int64 `json:",omitempty"`
	// Downsampled is the downsample that made rows of the policy and is gone; nil: there is
	// none, or another one has taken over its definitions.
	Downsampled   *Downsample    `json:",omitempty"`
	ShardGroups   []*ShardGroup  `json:",omitempty"` // sorted by Start, disjoint
	Subscriptions []Subscription `json:",omitempty"`
}

// ShardGroup is the time range [Start, End) of a retention policy, in
// nanoseconds since the epoch. Its series are spread over Shards, of which a
// single node makes one.
type ShardGroup struct {
	ID         uint64
	Start, End int64
	Shards     []Shard
}

// Shard is one part of a shard group.
type Shard struct {
	ID uint64
}

// ContinuousQuery is a stored SELECT INTO.
type ContinuousQuery struct {
	Name, Query string
	Run         ContinuousRun `json:",omitzero"`
}

// ContinuousRun is how far a continuous query has come, in nanoseconds since the
// epoch by the wall clock. The zero value has not run.
type ContinuousRun struct {
	// At is the time of the last run that succeeded.
	At int64
	// The latest run that came more than a step after the one before it was at
	// LeapTo, the one before at LeapFrom; 0: there was none. If LeapTo turns out
	// to be in the future, the clock had jumped ahead, and LeapFrom is how far the
	// query really was.
	LeapFrom, LeapTo int64 `json:",omitempty"`
}

// Subscription is a stored wish to have writes copied elsewhere.
type Subscription struct {
	Name         string
	Mode         string // ALL or ANY
	Destinations []string
}

// Database returns the database, or nil.
func (d *Data) Database(name string) *Database { return d.byName[name] }

// DatabaseByID returns the database, or nil.
func (d *Data) DatabaseByID(id uint32) *Database {
	for _, db := range d.Databases {
		if db.ID == id {
			return db
		}
	}
	return nil
}

// RetentionPolicy returns a policy of a database; rp "" is the default policy.
// The error is an ErrDatabaseNotFound or ErrRetentionPolicyNotFound.
func (d *Data) RetentionPolicy(db, rp string) (*RetentionPolicy, error) {
	database := d.byName[db]
	if database == nil {
		return nil, databaseNotFound(db)
	}
	if rp == "" {
		rp = database.DefaultRetentionPolicy
	}
	policy := database.RetentionPolicy(rp)
	if policy == nil {
		return nil, retentionPolicyNotFound(rp)
	}
	return policy, nil
}

// User returns the user, or nil.
func (d *Data) User(name string) *User {
	for _, u := range d.Users {
		if u.Name == name {
			return u
		}
	}
	return nil
}

// AdminExists reports whether some user is an administrator.
func (d *Data) AdminExists() bool {
	return slices.ContainsFunc(d.Users, func(u *User) bool { return u.Admin })
}

// ShardLocation says where a shard belongs.
type ShardLocation struct {
	Database *Database
	Policy   *RetentionPolicy
	Group    *ShardGroup
}

// Shards returns all shards by their ids, in the order of the catalog.
func (d *Data) Shards() iter.Seq2[uint64, ShardLocation] {
	return func(yield func(uint64, ShardLocation) bool) {
		for _, db := range d.Databases {
			for id, at := range db.Shards() {
				if !yield(id, at) {
					return
				}
			}
		}
	}
}

// Shards returns the shards of a database by their ids.
func (db *Database) Shards() iter.Seq2[uint64, ShardLocation] {
	return func(yield func(uint64, ShardLocation) bool) {
		for _, rp := range db.RetentionPolicies {
			for _, g := range rp.ShardGroups {
				for _, s := range g.Shards {
					if !yield(s.ID, ShardLocation{Database: db, Policy: rp, Group: g}) {
						return
					}
				}
			}
		}
	}
}

// Shard finds a shard by its id. It looks at every group.
func (d *Data) Shard(id uint64) (ShardLocation, bool) {
	for have, at := range d.Shards() {
		if have == id {
			return at, true
		}
	}
	return ShardLocation{}, false
}

// ShardsWithout returns the shards that after no longer has, and their databases.
func (d *Data) ShardsWithout(after *Data) map[uint64]uint32 {
	gone := map[uint64]uint32{}
	for id, at := range d.Shards() {
		gone[id] = at.Database.ID
	}
	for id := range after.Shards() {
		delete(gone, id)
	}
	return gone
}

// ContinuousQuery returns a continuous query by name, nil if there is none.
func (db *Database) ContinuousQuery(name string) *ContinuousQuery {
	for i := range db.ContinuousQueries {
		if db.ContinuousQueries[i].Name == name {
			return &db.ContinuousQueries[i]
		}
	}
	return nil
}

// RetentionPolicy returns the policy of that very name, or nil.
func (db *Database) RetentionPolicy(name string) *RetentionPolicy {
	for _, rp := range db.RetentionPolicies {
		if rp.Name == name {
			return rp
		}
	}
	return nil
}

// Contains reports whether t, in nanoseconds since the epoch, lies in the group.
func (g *ShardGroup) Contains(t int64) bool { return t >= g.Start && t < g.End }

// TimeRange returns the group's range with an inclusive end.
func (g *ShardGroup) TimeRange() model.TimeRange {
	return model.TimeRange{Min: g.Start, Max: g.End - 1}
}

// ShardGroupAt returns the group that holds t, or nil.
func (rp *RetentionPolicy) ShardGroupAt(t int64) *ShardGroup {
	i := rp.firstEndingAfter(t)
	if i == len(rp.ShardGroups) || !rp.ShardGroups[i].Contains(t) {
		return nil
	}
	return rp.ShardGroups[i]
}

// ShardGroupsIn returns the groups that overlap r, in order of time. The slice
// is part of the catalog and read-only.
func (rp *RetentionPolicy) ShardGroupsIn(r model.TimeRange) []*ShardGroup {
	if r.Empty() {
		return nil
	}
	lo := rp.firstEndingAfter(r.Min)
	hi := lo
	for hi < len(rp.ShardGroups) && rp.ShardGroups[hi].Start <= r.Max {
		hi++
	}
	return rp.ShardGroups[lo:hi:hi]
}

// Window returns the times that the policy accepts now.
func (rp *RetentionPolicy) Window(now int64) (floor, ceiling int64) {
	floor, ceiling = model.MinTime, model.MaxTime
	if d := int64(rp.Duration); d > 0 {
		floor = now - d
	}
	if d := int64(rp.PastWriteLimit); d > 0 {
		floor = max(floor, now-d)
	}
	if d := int64(rp.FutureWriteLimit); d > 0 {
		ceiling = now + d
	}
	return floor, ceiling
}

// Limited reports whether the policy has a write window, which is strict.
func (rp *RetentionPolicy) Limited() bool { return rp.PastWriteLimit > 0 || rp.FutureWriteLimit > 0 }

// NeverCold as RetentionPolicy.ColdAfter keeps all shards of the policy out of the cold store. So
// does every negative age.
const NeverCold time.Duration = -1

// ColdAge returns how long after its end a shard of the policy goes to the cold store, 0 if none
// does. server is the age of policies that have none of their own.
func (rp *RetentionPolicy) ColdAge(server time.Duration) time.Duration {
	return max(cmp.Or(rp.ColdAfter, server), 0)
}

// GroupsMissing returns a time of each group that the policy lacks for times.
func (rp *RetentionPolicy) GroupsMissing(times iter.Seq[int64]) (missing []int64) {
	wanted := map[int64]bool{} // by the group's start
	for t := range times {
		if rp.ShardGroupAt(t) != nil {
			continue
		}
		start, _ := GroupBounds(t, rp.ShardGroupDuration)
		if !wanted[start] {
			wanted[start] = true
			missing = append(missing, t)
		}
	}
	return missing
}

// firstEndingAfter returns the position of the first group with End > t.
func (rp *RetentionPolicy) firstEndingAfter(t int64) int {
	i, _ := slices.BinarySearchFunc(rp.ShardGroups, t, func(g *ShardGroup, t int64) int {
		if g.End <= t {
			return -1
		}
		return 1
	})
	return i
}

// index rebuilds the lookup table; only the maker of d may call it.
func (d *Data) index() {
	d.byName = make(map[string]*Database, len(d.Databases))
	for _, db := range d.Databases {
		d.byName[db.Name] = db
	}
}

// validate checks what the rest of the package relies on, after decoding.
func (d *Data) validate() error {
	seenDB := map[string]bool{}
	seenID := map[uint64]bool{}
	for _, db := range d.Databases {
		if db == nil || db.Name == "" || seenDB[db.Name] || db.ID == 0 || db.ID > d.LastDatabaseID {
			return fmt.Errorf("database list is inconsistent")
		}
		seenDB[db.Name] = true
		seenRP := map[string]bool{}
		for _, rp := range db.RetentionPolicies {
			if rp == nil || rp.Name == "" || seenRP[rp.Name] || rp.ShardGroupDuration <= 0 || rp.Duration < 0 {
				return fmt.Errorf("retention policies of database %q are inconsistent", db.Name)
			}
			seenRP[rp.Name] = true
			for i, g := range rp.ShardGroups {
				if g == nil || g.ID == 0 || g.ID > d.LastShardGroupID || g.Start >= g.End ||
					(i > 0 && rp.ShardGroups[i-1].End > g.Start) || len(g.Shards) == 0 {
					return fmt.Errorf("shard groups of %q.%q are inconsistent", db.Name, rp.Name)
				}
				for _, s := range g.Shards {
					if s.ID == 0 || s.ID > d.LastShardID || seenID[s.ID] {
						return fmt.Errorf("shard ids of %q.%q are inconsistent", db.Name, rp.Name)
					}
					seenID[s.ID] = true
				}
			}
		}
	}
	if err := errors.Join(d.validateDownsamples(), d.validateBoards()); err != nil {
		return err
	}
	seenUser := map[string]bool{}
	for _, u := range d.Users {
		if u == nil || u.Name == "" || seenUser[u.Name] {
			return fmt.Errorf("user list is inconsistent")
		}
		seenUser[u.Name] = true
	}
	return nil
}

// validName reports whether a user, a continuous query or a subscription may have a
// name: valid UTF-8 without ASCII control characters, because the catalog is JSON.
func validName(name string) bool {
	return utf8.ValidString(name) && !strings.ContainsFunc(name, func(r rune) bool { return r < ' ' || r == 0x7f })
}

// MaxNameLength is the longest name of a database or policy, in bytes.
const MaxNameLength = 255

// CheckName returns ErrInvalidName or ErrNameTooLong for names that a database
// or retention policy cannot have. Names become directory names.
func CheckName(name string) error {
	if name == "" || name == "." || name == ".." || strings.ContainsAny(name, `/\`) || !utf8.ValidString(name) ||
		strings.ContainsFunc(name, notPrintable) {
		return ErrInvalidName
	}
	if len(name) > MaxNameLength {
		return ErrNameTooLong
	}
	return nil
}

func databaseNotFound(name string) error { return fmt.Errorf("%w: %s", ErrDatabaseNotFound, name) }

func retentionPolicyNotFound(name string) error {
	return fmt.Errorf("%w: %s", ErrRetentionPolicyNotFound, name)
}
