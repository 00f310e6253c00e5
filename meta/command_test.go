package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/identity"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
)

func ptr[T any](v T) *T { return &v }

func empty() *Data {
	d := &Data{Lineage: identity.Lineage{1, 2, 3, 0xfe}}
	d.index()
	return d
}

func mustApply(t *testing.T, d *Data, cmds ...Command) *Data {
	t.Helper()
	for _, cmd := range cmds {
		next, err := Apply(cmd, d)
		if err != nil {
			t.Fatalf("%T%+v: %v", cmd, cmd, err)
		}
		d = next
	}
	return d
}

// describe is a policy in short: name, duration, group duration, copies.
func describe(db *Database) string {
	var parts []string
	for _, rp := range db.RetentionPolicies {
		s := fmt.Sprintf("%s %v %v %d", rp.Name, rp.Duration, rp.ShardGroupDuration, rp.ReplicaN)
		if rp.FutureWriteLimit != 0 || rp.PastWriteLimit != 0 {
			s += fmt.Sprintf(" +%v -%v", rp.FutureWriteLimit, rp.PastWriteLimit)
		}
		if rp.ColdAfter != 0 {
			s += fmt.Sprintf(" cold %v", rp.ColdAfter)
		}
		if rp.Name == db.DefaultRetentionPolicy {
			s += " *"
		}
		parts = append(parts, s)
	}
	return strings.Join(parts, "; ")
}

func TestCreateDatabase(t *testing.T) {
	long := strings.Repeat("x", 256)
	type P = RetentionPolicySpec
	for _, c := range []struct {
		cmds []Command
		want string // policies of database d
		err  error  // of the last command
	}{
		{[]Command{CreateDatabase{Name: "d"}}, "autogen 0s 168h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", WithoutPolicy: true}}, "", nil},
		{[]Command{CreateDatabase{Name: "d", WithoutPolicy: true}, CreateDatabase{Name: "d", Policy: &P{Name: "p"}}}, "p 0s 168h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}}, "autogen 72h0m0s 24h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}, CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}}, "autogen 72h0m0s 24h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}, CreateDatabase{Name: "d"}}, "autogen 72h0m0s 24h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}, CreateDatabase{Name: "d", Policy: &P{Duration: ptr(4 * day)}}}, "", ErrRetentionPolicyConflict},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day), ReplicaN: ptr(2)}}, CreateDatabase{Name: "d", Policy: &P{Duration: ptr(3 * day)}}}, "autogen 72h0m0s 24h0m0s 2 *", nil},
		{[]Command{CreateDatabase{Name: "d"}, CreateDatabase{Name: "d", Policy: &P{Name: "p"}}}, "", ErrRetentionPolicyConflict},
		{[]Command{CreateDatabase{Name: "d"}, CreateRetentionPolicy{Database: "d", Policy: P{Name: "p"}}, CreateDatabase{Name: "d", Policy: &P{Name: "p"}}}, "", ErrRetentionPolicyConflict},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Name: "p", Duration: ptr(3 * day), ReplicaN: ptr(2), ShardGroupDuration: ptr(2 * hour)}}}, "p 72h0m0s 2h0m0s 2 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{FutureWriteLimit: ptr(hour), PastWriteLimit: ptr(2 * hour)}}}, "autogen 0s 168h0m0s 1 +1h0m0s -2h0m0s *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{ColdAfter: ptr(hour)}}, CreateDatabase{Name: "d", Policy: &P{ColdAfter: ptr(hour)}}, CreateDatabase{Name: "d", Policy: &P{}}}, "autogen 0s 168h0m0s 1 cold 1h0m0s *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{ColdAfter: ptr(hour)}}, CreateDatabase{Name: "d", Policy: &P{ColdAfter: ptr(time.Duration(0))}}}, "", ErrRetentionPolicyConflict},
		{[]Command{CreateDatabase{Name: "d", Shards: FineShardDurations, Policy: &P{Duration: ptr(2 * hour), ShardGroupDuration: ptr(hour)}}}, "autogen 2h0m0s 1h0m0s 1 *", nil},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(time.Minute)}}}, "", ErrRetentionPolicyDurationTooLow},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Duration: ptr(-hour)}}}, "", ErrRetentionPolicyDurationTooLow},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{ReplicaN: ptr(0)}}}, "", ErrReplicationFactorTooLow},
		{[]Command{CreateDatabase{Name: "d", Policy: &P{Name: "a/b"}}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: ""}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: "."}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: ".."}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: `a\b`}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: "a\nb"}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: "a\xffb"}}, "", ErrInvalidName},
		{[]Command{CreateDatabase{Name: long}}, "", ErrNameTooLong},
		{[]Command{CreateDatabase{Name: long[1:]}, CreateDatabase{Name: "d"}}, "autogen 0s 168h0m0s 1 *", nil},
	} {
		checkPolicies(t, c.cmds, c.want, c.err)
	}
}

func checkPolicies(t *testing.T, cmds []Command, want string, wantErr error) {
	t.Helper()
	last := len(cmds) - 1
	before := mustApply(t, empty(), cmds[:last]...)
	d, err := Apply(cmds[last], before)
	if !errors.Is(err, wantErr) {
		t.Errorf("%+v: %v, want %v", cmds, err, wantErr)
		return
	}
	if err != nil {
		if d != nil {
			t.Errorf("%+v: data beside an error", cmds)
		}
		return
	}
	if got := describe(d.Database("d")); got != want {
		t.Errorf("%+v: %q, want %q", cmds, got, want)
	}
}

func TestRetentionPolicies(t *testing.T) {
	type P = RetentionPolicySpec
	create := func(name string, d, sg time.Duration) CreateRetentionPolicy {
		return CreateRetentionPolicy{Database: "d", Policy: P{Name: name, Duration: ptr(d), ReplicaN: ptr(1), ShardGroupDuration: ptr(sg)}}
	}
	alter := func(p P) AlterRetentionPolicy {
		p.Name = "r"
		return AlterRetentionPolicy{Database: "d", Policy: p}
	}
	db := CreateDatabase{Name: "d"}
	const auto = "autogen 0s 168h0m0s 1 *"
	const autoNot = "autogen 0s 168h0m0s 1"
	for _, c := range []struct {
		cmds []Command
		want string
		err  error
	}{
		{[]Command{db, create("r", 10*day, 0)}, auto + "; r 240h0m0s 24h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, time.Second)}, auto + "; r 240h0m0s 1h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 90*time.Minute)}, auto + "; r 240h0m0s 1h30m0s 1", nil},
		{[]Command{db, create("r", 10*day, 10*day)}, auto + "; r 240h0m0s 240h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 11*day)}, "", ErrIncompatibleDurations},
		{[]Command{db, create("r", 59*time.Minute, 0)}, "", ErrRetentionPolicyDurationTooLow},
		{[]Command{db, create("r", 10*day, 0), create("r", 10*day, 0)}, auto + "; r 240h0m0s 24h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 0), create("r", 11*day, 0)}, "", ErrRetentionPolicyExists},
		{[]Command{db, create("r", 10*day, 0), CreateRetentionPolicy{Database: "d", Policy: create("r", 10*day, 0).Policy, Default: true}}, "", ErrRetentionPolicyConflict},
		{[]Command{db, CreateRetentionPolicy{Database: "d", Policy: create("r", 10*day, 0).Policy, Default: true}}, autoNot + "; r 240h0m0s 24h0m0s 1 *", nil},
		{[]Command{db, CreateRetentionPolicy{Database: "x", Policy: P{Name: "r"}}}, "", ErrDatabaseNotFound},
		{[]Command{db, create("r", 10*day, 0), alter(P{Duration: ptr(20 * day)})}, auto + "; r 480h0m0s 24h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{Duration: ptr(time.Duration(0))})}, auto + "; r 0s 24h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{Duration: ptr(2 * hour)})}, "", ErrIncompatibleDurations},
		{[]Command{db, create("r", 10*day, 0), alter(P{Duration: ptr(time.Minute)})}, "", ErrRetentionPolicyDurationTooLow},
		{[]Command{db, create("r", 10*day, 0), alter(P{ShardGroupDuration: ptr(11 * day)})}, "", ErrIncompatibleDurations},
		{[]Command{db, create("r", 10*day, 0), alter(P{ShardGroupDuration: ptr(time.Duration(0)), Duration: ptr(400 * day)})}, auto + "; r 9600h0m0s 168h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ReplicaN: ptr(3)})}, auto + "; r 240h0m0s 24h0m0s 3", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ReplicaN: ptr(0)})}, "", ErrReplicationFactorTooLow},
		{[]Command{db, create("r", 10*day, 0), alter(P{FutureWriteLimit: ptr(hour)}), alter(P{PastWriteLimit: ptr(hour)}), alter(P{FutureWriteLimit: ptr(time.Duration(0))})}, auto + "; r 240h0m0s 24h0m0s 1 +0s -1h0m0s", nil},
		{[]Command{db, CreateRetentionPolicy{Database: "d", Policy: P{Name: "r", ColdAfter: ptr(NeverCold)}}}, auto + "; r 0s 168h0m0s 1 cold -1ns", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ColdAfter: ptr(day)}), alter(P{ReplicaN: ptr(2)})}, auto + "; r 240h0m0s 24h0m0s 2 cold 24h0m0s", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ColdAfter: ptr(day)}), alter(P{ColdAfter: ptr(time.Duration(0))})}, auto + "; r 240h0m0s 24h0m0s 1", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ColdAfter: ptr(day)}), create("r", 10*day, 0)}, auto + "; r 240h0m0s 24h0m0s 1 cold 24h0m0s", nil},
		{[]Command{db, create("r", 10*day, 0), alter(P{ColdAfter: ptr(day)}), CreateRetentionPolicy{Database: "d", Policy: P{Name: "r", Duration: ptr(10 * day), ColdAfter: ptr(hour)}}}, "", ErrRetentionPolicyExists},
		{[]Command{db, create("r", 10*day, 0), AlterRetentionPolicy{Database: "d", Policy: P{Name: "r"}, Default: true}}, autoNot + "; r 240h0m0s 24h0m0s 1 *", nil},
		{[]Command{db, AlterRetentionPolicy{Database: "d", Policy: P{Name: "r"}}}, "", ErrRetentionPolicyNotFound},
		{[]Command{db, AlterRetentionPolicy{Database: "x", Policy: P{Name: "r"}}}, "", ErrDatabaseNotFound},
		{[]Command{db, DropRetentionPolicy{"d", "nope"}}, auto, nil},
		{[]Command{db, create("r", 10*day, 0), DropRetentionPolicy{"d", "autogen"}}, "r 240h0m0s 24h0m0s 1", nil},
	} {
		checkPolicies(t, c.cmds, c.want, c.err)
	}
	d := mustApply(t, empty(), db, DropRetentionPolicy{"d", "autogen"})
	if _, err := d.RetentionPolicy("d", ""); !errors.Is(err, ErrRetentionPolicyNotFound) || err.Error() != "retention policy not found: autogen" {
		t.Errorf("the dropped default: %v", err)
	}
	if _, err := d.RetentionPolicy("x", ""); !errors.Is(err, ErrDatabaseNotFound) || err.Error() != "database not found: x" {
		t.Errorf("a missing database: %v", err)
	}
}

// TestColdAge: the age of a policy goes before that of the server, and neither may be below 0.
func TestColdAge(t *testing.T) {
	for _, c := range []struct{ policy, server, want time.Duration }{
		{0, 0, 0}, {0, hour, hour}, {day, hour, day}, {day, 0, day}, {NeverCold, hour, 0}, {NeverCold, 0, 0}, {-hour, hour, 0},
	} {
		if got := (&RetentionPolicy{ColdAfter: c.policy}).ColdAge(c.server); got != c.want {
			t.Errorf("policy %v, server %v: %v, want %v", c.policy, c.server, got, c.want)
		}
	}
}

func TestIDsAreNeverReused(t *testing.T) {
	at := CreateShardGroup{Database: "d", Time: 0}
	d := mustApply(t, empty(), CreateDatabase{Name: "d"}, at, DropDatabase{"d"}, DropDatabase{"d"}, CreateDatabase{Name: "d"}, at)
	db := d.Database("d")
	g := db.RetentionPolicies[0].ShardGroups[0]
	if db.ID != 2 || g.ID != 2 || g.Shards[0].ID != 2 || d.DatabaseByID(2) != db || d.DatabaseByID(1) != nil {
		t.Errorf("database %d, group %+v", db.ID, g)
	}
}

// TestShardGroupsTogether makes groups in one change and one by one.
func TestShardGroupsTogether(t *testing.T) {
	times := []int64{int64(week), 0, int64(week) + 1, 40 * int64(week), -1}
	d := mustApply(t, empty(), CreateDatabase{Name: "d"})
	together := mustApply(t, d, CreateShardGroups{Database: "d", Times: times})
	one := d
	for _, at := range times {
		one = mustApply(t, one, CreateShardGroup{Database: "d", Time: at})
	}
	if together.Index != d.Index+1 || !reflect.DeepEqual(together.Databases, one.Databases) || together.LastShardID != one.LastShardID {
		t.Errorf("together %+v, one by one %+v", together.Databases[0], one.Databases[0])
	}
	if mustApply(t, together, CreateShardGroups{Database: "d", Times: times}) != together {
		t.Error("a change where all groups are there")
	}
	if _, err := Apply(CreateShardGroups{Database: "d", Times: []int64{50 * int64(week), math.MinInt64}}, d); !errors.Is(err, ErrTimeOutOfRange) {
		t.Errorf("a time out of range: %v", err)
	}
}

func TestShardGroups(t *testing.T) {
	d := mustApply(t, empty(), CreateDatabase{Name: "d"})
	monday := time.Date(2024, 1, 1, 0, 0, 0, 0, time.UTC).UnixNano()
	group := func(at int64) CreateShardGroup { return CreateShardGroup{Database: "d", Time: at} }
	d = mustApply(t, d, group(monday+int64(day)))
	if same := mustApply(t, d, group(monday), group(monday+int64(week)-1)); same != d {
		t.Error("a second group where there is one")
	}
	// Smaller groups around the old one, then larger ones that must shrink.
	alter := func(sg time.Duration) AlterRetentionPolicy {
		return AlterRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "autogen", ShardGroupDuration: &sg}}
	}
	d = mustApply(t, d, alter(day), group(monday-1), group(monday+int64(week)), alter(30*day), group(monday-2*int64(day)), group(monday+int64(week)+int64(day)))
	rp, err := d.RetentionPolicy("d", "")
	if err != nil {
		t.Fatal(err)
	}
	want := []int64{-1, -1, 0, 7, 8}
	for i, g := range rp.ShardGroups {
		if i > 0 {
			if start := monday + want[i]*int64(day); g.Start != start || rp.ShardGroups[i-1].End != start {
				t.Errorf("group %d is %v - %v", i, time.Unix(0, g.Start).UTC(), time.Unix(0, g.End).UTC())
			}
		}
	}
	if len(rp.ShardGroups) != 5 {
		t.Fatalf("%d groups", len(rp.ShardGroups))
	}
	for i, g := range rp.ShardGroups {
		if rp.ShardGroupAt(g.Start) != g || rp.ShardGroupAt(g.End-1) != g {
			t.Errorf("group %d is not found", i)
		}
		if got := rp.ShardGroupsIn(g.TimeRange()); len(got) != 1 || got[0].ID != g.ID {
			t.Errorf("ShardGroupsIn(group %d) = %v", i, got)
		}
	}
	if got := rp.ShardGroupsIn(model.AllTime); len(got) != 5 {
		t.Errorf("all groups: %v", got)
	}
	if got := rp.ShardGroupsIn(model.TimeRange{Min: 5, Max: 4}); got != nil {
		t.Errorf("no range: %v", got)
	}
	if rp.ShardGroupAt(model.MinTime) != nil || rp.ShardGroupAt(model.MaxTime) != nil {
		t.Error("a group at the ends of time")
	}
	loc, ok := d.Shard(3)
	if !ok || loc.Database.Name != "d" || loc.Group.ID != 3 {
		t.Errorf("Shard(3) = %+v, %v", loc, ok)
	}
	d = mustApply(t, d, DropShard{3}, DropShardGroup{Database: "d", ID: 1})
	if rp, _ := d.RetentionPolicy("d", ""); len(rp.ShardGroups) != 3 {
		t.Errorf("%d groups after two drops", len(rp.ShardGroups))
	}
	for _, c := range []struct {
		cmd  Command
		want error
	}{
		{DropShard{3}, ErrShardNotFound},
		{DropShardGroup{Database: "d", ID: 1}, ErrShardGroupNotFound},
		{DropShardGroup{Database: "d", ID: 2, IfDuration: hour}, ErrIndexChanged},
		{group(model.MinTime - 1), ErrTimeOutOfRange},
		{group(model.MaxTime + 1), ErrTimeOutOfRange},
		{CreateShardGroup{Database: "x"}, ErrDatabaseNotFound},
		{CreateShardGroup{Database: "d", RetentionPolicy: "x"}, ErrRetentionPolicyNotFound},
	} {
		if _, err := Apply(c.cmd, d); !errors.Is(err, c.want) {
			t.Errorf("%T%+v: %v, want %v", c.cmd, c.cmd, err, c.want)
		}
	}
}

func TestUsers(t *testing.T) {
	d := mustApply(t, empty(), CreateDatabase{Name: "a"}, CreateDatabase{Name: "b"},
		CreateUser{Name: "root", Hash: "h", Admin: true}, CreateUser{Name: "u", Hash: "x"},
		SetPrivilege{"u", "a", ReadPrivilege}, SetPrivilege{"u", "b", AllPrivileges})
	u := d.User("u")
	if !u.Authorized(ReadPrivilege, "a") || u.Authorized(WritePrivilege, "a") || u.Authorized(AllPrivileges, "a") ||
		!u.Authorized(AllPrivileges, "b") || u.Authorized(ReadPrivilege, "c") || !d.User("root").Authorized(AllPrivileges, "c") {
		t.Errorf("grants of %+v", u)
	}
	if !d.AdminExists() || mustApply(t, d, SetAdmin{"root", false}).AdminExists() {
		t.Error("AdminExists")
	}
	after := mustApply(t, d, DropDatabase{"b"}, SetPassword{"u", "y"})
	if got := after.User("u"); len(got.Privileges) != 1 || got.Hash != "y" {
		t.Errorf("user after the drop of a database: %+v", got)
	}
	if len(u.Privileges) != 2 || u.Hash != "x" {
		t.Errorf("old data changed: %+v", u)
	}
	for _, c := range []struct {
		cmd  Command
		want error
	}{
		{CreateUser{Name: "u"}, ErrUserExists},
		{CreateUser{}, ErrUsernameRequired},
		{CreateUser{Name: "\xff"}, ErrInvalidName},
		{CreateUser{Name: "a\tb"}, ErrInvalidName},
		{DropUser{"x"}, ErrUserNotFound},
		{SetPassword{"x", "h"}, ErrUserNotFound},
		{SetAdmin{"x", true}, ErrUserNotFound},
		{SetPrivilege{"x", "a", ReadPrivilege}, ErrUserNotFound},
		{SetPrivilege{"u", "x", ReadPrivilege}, ErrDatabaseNotFound},
	} {
		if _, err := Apply(c.cmd, d); !errors.Is(err, c.want) {
			t.Errorf("%T%+v: %v, want %v", c.cmd, c.cmd, err, c.want)
		}
	}
	if mustApply(t, d, DropUser{"u"}).User("u") != nil {
		t.Error("dropped user stays")
	}
	for p, want := range map[Privilege]string{0: "NO PRIVILEGES", 1: "READ", 2: "WRITE", 3: "ALL PRIVILEGES", 9: "Privilege(9)"} {
		if p.String() != want {
			t.Errorf("Privilege(%d) = %s", p, p)
		}
	}
}

func TestContinuousQueriesAndSubscriptions(t *testing.T) {
	sub := Subscription{Name: "s", Mode: "ALL", Destinations: []string{"http://h:1"}}
	d := mustApply(t, empty(), CreateDatabase{Name: "d"},
		CreateContinuousQuery{"d", "q", "text"}, CreateSubscription{"d", "", sub})
	if mustApply(t, d, CreateContinuousQuery{"d", "q", "text"}, DropContinuousQuery{"d", "nope"}) != d {
		t.Error("no change made a change")
	}
	for _, c := range []struct {
		cmd  Command
		want error
	}{
		{CreateContinuousQuery{"d", "q", "other"}, ErrContinuousQueryExists},
		{CreateContinuousQuery{"x", "q", "other"}, ErrDatabaseNotFound},
		{DropContinuousQuery{"x", "q"}, ErrDatabaseNotFound},
		{CreateContinuousQuery{"d", "q\x00", "text"}, ErrInvalidName},
		{CreateSubscription{"d", "autogen", sub}, ErrSubscriptionExists},
		{CreateSubscription{"d", "autogen", Subscription{Name: "s\n"}}, ErrInvalidName},
		{CreateSubscription{"d", "x", sub}, ErrRetentionPolicyNotFound},
		{DropSubscription{"d", "autogen", "x"}, ErrSubscriptionNotFound},
	} {
		if _, err := Apply(c.cmd, d); !errors.Is(err, c.want) {
			t.Errorf("%T%+v: %v, want %v", c.cmd, c.cmd, err, c.want)
		}
	}
	run := ContinuousRun{At: 7, LeapFrom: 1, LeapTo: 5}
	ran := mustApply(t, d, SetContinuousRuns{[]QueryRun{{"x", "q", "text", run}, {"d", "q", "other", run}, {"d", "x", "text", run}}})
	if ran != d {
		t.Errorf("runs of queries that are not there: %+v", ran.Database("d"))
	}
	ran = mustApply(t, d, SetContinuousRuns{[]QueryRun{{"d", "q", "other", run}, {"d", "q", "text", run}}})
	if got := ran.Database("d").ContinuousQuery("q").Run; got != run {
		t.Errorf("run %+v", got)
	}
	if got := d.Database("d").ContinuousQuery("q").Run; got != (ContinuousRun{}) {
		t.Errorf("the catalog before has %+v", got)
	}
	if mustApply(t, ran, SetContinuousRuns{[]QueryRun{{"d", "q", "text", run}}}, CreateContinuousQuery{"d", "q", "text"}) != ran {
		t.Error("no change made a change")
	}
	d = mustApply(t, d, DropContinuousQuery{"d", "q"}, DropSubscription{"d", "autogen", "s"})
	if db := d.Database("d"); len(db.ContinuousQueries) != 0 || len(db.RetentionPolicies[0].Subscriptions) != 0 {
		t.Errorf("left over: %+v", db)
	}
}

// randomCommand draws from few names, so that commands meet each other.
func randomCommand(rnd *rand.Rand) Command {
	db := string(rune('a' + rnd.IntN(3)))
	rp := []string{"", "autogen", "r", "s"}[rnd.IntN(4)]
	dur := []time.Duration{0, hour, 3 * hour, 3 * day, 200 * day}[rnd.IntN(5)]
	spec := RetentionPolicySpec{Name: rp, Duration: &dur}
	if rnd.IntN(2) == 0 {
		spec.ShardGroupDuration = ptr([]time.Duration{0, hour, 5 * hour, day, week}[rnd.IntN(5)])
	}
	switch rnd.IntN(16) {
	case 0:
		return DropDatabase{db}
	case 1:
		return CreateDatabase{Name: db, Policy: &spec}
	case 2:
		return CreateDatabase{Name: db}
	case 3:
		return CreateRetentionPolicy{Database: db, Policy: spec, Default: rnd.IntN(2) == 0}
	case 4:
		return AlterRetentionPolicy{Database: db, Policy: spec, Default: rnd.IntN(2) == 0}
	case 5:
		return DropRetentionPolicy{db, rp}
	case 6:
		return DropShard{rnd.Uint64N(20)}
	case 7:
		return DropShardGroup{Database: db, RetentionPolicy: rp, ID: rnd.Uint64N(20)}
	case 8:
		return CreateUser{Name: db}
	case 9:
		return SetPrivilege{Name: db, Database: db, Privilege: Privilege(rnd.IntN(4))}
	case 10:
		return DropUser{db}
	default:
		at := rnd.Int64N(int64(400*day)) - int64(200*day)
		if rnd.IntN(50) == 0 {
			at = model.MaxTime - rnd.Int64N(10)
		}
		return CreateShardGroup{db, rp, at}
	}
}

// After any commands the data is consistent, older data is untouched, ids only
// grow, and the encoding gives the same data back.
func TestRandomCommands(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 2))
	d := empty()
	for i := range 4000 {
		before, _ := json.Marshal(d)
		cmd := randomCommand(rnd)
		next, err := Apply(cmd, d)
		if after, _ := json.Marshal(d); string(after) != string(before) {
			t.Fatalf("step %d: %T%+v changed the old data", i, cmd, cmd)
		}
		if err != nil {
			continue
		}
		if err := next.validate(); err != nil {
			t.Fatalf("step %d: %T%+v: %v", i, cmd, cmd, err)
		}
		if next != d && next.Index != d.Index+1 {
			t.Fatalf("step %d: index %d after %d", i, next.Index, d.Index)
		}
		if next.LastDatabaseID < d.LastDatabaseID || next.LastShardID < d.LastShardID || next.LastShardGroupID < d.LastShardGroupID {
			t.Fatalf("step %d: an id counter went down", i)
		}
		again, err := Apply(cmd, d)
		if err != nil || !reflect.DeepEqual(again, next) {
			t.Fatalf("step %d: %T%+v is not deterministic", i, cmd, cmd)
		}
		d = next
		if i%100 == 0 {
			b, err := encode(nil, d, 0)
			if err != nil {
				t.Fatal(err)
			}
			got, _, err := decode("x", b)
			if err != nil {
				t.Fatal(err)
			}
			have, _ := json.Marshal(got)
			if want, _ := json.Marshal(d); string(have) != string(want) {
				t.Fatalf("step %d: decoded data differs", i)
			}
		}
	}
}
