package meta

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// everyCommand is a command of each kind with all its fields.
func everyCommand() []Command {
	spec := RetentionPolicySpec{
		Name: "rp", Duration: ptr(30 * day), ReplicaN: ptr(1), ShardGroupDuration: ptr(day),
		FutureWriteLimit: ptr(hour), PastWriteLimit: ptr(2 * hour),
	}
	rule := ShardDurations{DayFrom: hour, WeekFrom: week}
	return []Command{
		CreateDatabase{Name: "d", Policy: &spec, Shards: rule},
		CreateDatabase{Name: "e", WithoutPolicy: true},
		DropDatabase{Name: "d"},
		CreateRetentionPolicy{Database: "d", Policy: spec, Default: true, Shards: rule},
		AlterRetentionPolicy{Database: "d", Policy: spec, Default: true, Shards: rule},
		DropRetentionPolicy{Database: "d", Name: "rp"},
		CreateShardGroup{Database: "d", RetentionPolicy: "rp", Time: -1},
		CreateShardGroups{Database: "d", RetentionPolicy: "rp", Times: []int64{1, 1 << 62}},
		DropShardGroup{Database: "d", RetentionPolicy: "rp", ID: 7, IfDuration: time.Hour},
		DropShard{ID: 1 << 63},
		CreateUser{Name: "ann", Hash: "$2a$10$hash", Admin: true},
		SetPassword{Name: "ann", Hash: "$2a$10$other"},
		SetAdmin{Name: "ann", Admin: true},
		SetPrivilege{Name: "ann", Database: "d", Privilege: WritePrivilege},
		DropUser{Name: "ann"},
		CreateContinuousQuery{Database: "d", Name: "cq", Query: "SELECT <&> \n"},
		DropContinuousQuery{Database: "d", Name: "cq"},
		SetContinuousRuns{[]QueryRun{{"d", "cq", "SELECT 1", ContinuousRun{At: 1 << 60, LeapFrom: 1, LeapTo: 2}}, {"d", "new", "SELECT 2", ContinuousRun{At: -1}}}},
		CreateDownsample{"d", "rp", "tier", "", "cpu", false, []Definition{{Period: Period{Every: hour}, Functions: []string{"mean"}, Where: "host = 'a'", Grouped: true, By: []string{"dc"}}}, 1 << 60, 0, 0, 0, ""},
		AlterDownsample{"d", "rp", "tier", Period{31 * 24 * hour, 1, "Europe/Berlin"}, []string{"max"}, []string{"mean"}, true, 1 << 60, ""},
		DropDownsample{"d", "rp", "tier"},
		CompleteWindows{12, 7, []ComputedWindows{{"", []string{"cpu"}, -1, 1, 0}, {"cpu", nil, 0, 5, 9}}},
		PutBoard{Database: "d", ID: 7, Edition: 3, Name: "Host", Content: json.RawMessage(`{"version":1}`), Time: 1 << 60},
		DropBoard{"d", 7, 3},
		CreateSubscription{Database: "d", RetentionPolicy: "rp", Subscription: Subscription{"s", "ANY", []string{"udp://h:1"}}},
		DropSubscription{Database: "d", RetentionPolicy: "rp", Name: "s"},
		AcceptLoss{[]AcceptedLoss{{Shard: 7, Range: model.TimeRange{Min: -5, Max: 9}, File: "1.tsm", ID: "A"}}},
		SetLogFormat{2},
		CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "rp", ColdAfter: ptr(7 * day)}},
		AlterRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: "rp", ColdAfter: ptr(NeverCold)}, Time: 1 << 60},
	}
}

// TestChanges holds the form of commands in the log still, and reads it back.
func TestChanges(t *testing.T) {
	const name = "testdata/changes-v2.golden"
	d := &Data{Index: 1, LastDatabaseID: 2, LastShardGroupID: 3, LastShardID: 4}
	var all []byte
	kinds := map[reflect.Type]bool{}
	for _, cmd := range everyCommand() {
		b, err := EncodeCommand(cmd, d)
		if err != nil {
			t.Fatal(err)
		}
		all = append(append(all, b...), '\n')
		ch, err := DecodeCommand(b)
		if err != nil || !reflect.DeepEqual(ch.Command, cmd) || ch.After != (Counters{1, 2, 3, 4}) {
			t.Errorf("%T: %+v, %v", cmd, ch, err)
		}
		kinds[reflect.TypeOf(cmd)] = true
		if _, err := DecodeCommand(b[:len(b)-1]); !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("%T cut: %v", cmd, err)
		}
		if _, err := DecodeCommand(append(bytes.Clone(b), "{}"...)); !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("%T with more behind: %v", cmd, err)
		}
	}
	if len(kinds) != 27 {
		t.Errorf("%d kinds of commands", len(kinds))
	}
	if *update {
		if err := os.WriteFile(name, all, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(all, want) {
		t.Errorf("commands changed:\n%s\nwant\n%s", all, want)
	}
}

func TestChangesOfLaterPrograms(t *testing.T) {
	for text, want := range map[string]error{
		"":       binio.ErrCorrupt,
		"\x02":   binio.ErrCorrupt,
		"\x03{}": binio.ErrVersion,
		"\x02{\"Command\":\"Frobnicate\",\"Body\":{}}":                binio.ErrVersion,
		"\x02{\"Command\":\"DropShard\",\"Body\":{\"ID\":1,\"X\":2}}": binio.ErrVersion,
		"\x02{\"Command\":\"DropShard\",\"New\":1,\"Body\":{}}":       binio.ErrVersion,
	} {
		if _, err := DecodeCommand([]byte(text)); !errors.Is(err, want) {
			t.Errorf("%q: %v, want %v", text, err, want)
		}
	}
}

// TestChangesInOrder applies what a log has: twice, with a gap, and refused ones.
func TestChangesInOrder(t *testing.T) {
	c := open(t, t.TempDir())
	var logged []*Change
	sequence := uint64(0)
	apply := func(cmd Command) error {
		ch := &Change{cmd, c.Data().counters()}
		logged = append(logged, ch)
		sequence += 10
		return c.Apply(sequence, ch)
	}
	for _, cmd := range []Command{
		CreateDatabase{Name: "a"},
		CreateShardGroup{Database: "a"},
		DropDatabase{Name: "a"},
		CreateDatabase{Name: "a"},
		CreateShardGroup{Database: "a"},
		CreateShardGroup{Database: "a", Time: int64(week)},
	} {
		if err := apply(cmd); err != nil {
			t.Fatal(err)
		}
	}
	if err := apply(DropShard{ID: 99}); !errors.Is(err, ErrShardNotFound) || c.Data().Applied != sequence {
		t.Fatalf("a refused change: %v, applied %d", err, c.Data().Applied)
	}
	want, _ := json.Marshal(c.Data())
	// Again: the drop of the first "a" must not drop the second.
	for i, ch := range logged {
		if err := c.Apply(uint64(10*(i+1)), ch); err != nil {
			t.Fatal(err)
		}
	}
	if got, _ := json.Marshal(c.Data()); !bytes.Equal(got, want) {
		t.Errorf("after a second replay %s\nwant %s", got, want)
	}
	// Without the fifth: its ids are not given to the group of the sixth.
	lossy := open(t, t.TempDir())
	for i, ch := range logged {
		if i != 4 {
			_ = lossy.Apply(uint64(10*(i+1)), ch)
		}
	}
	have, err := lossy.Data().RetentionPolicy("a", "")
	if err != nil || len(have.ShardGroups) != 1 || have.ShardGroups[0].Shards[0].ID != 3 || have.ShardGroups[0].Start != int64(week)-3*int64(day) {
		t.Errorf("with a change missing: %+v, %v", have, err)
	}
	if got := lossy.Data(); got.Index != c.Data().Index || got.LastShardID != c.Data().LastShardID {
		t.Errorf("with a change missing: index %d, last shard %d", got.Index, got.LastShardID)
	}
}

// FuzzCommand feeds the reader of commands: no panic, and what it reads is written
// and read again.
func FuzzCommand(f *testing.F) {
	for _, cmd := range everyCommand() {
		b, err := EncodeCommand(cmd, &Data{})
		if err != nil {
			f.Fatal(err)
		}
		f.Add(string(b[1:]))
	}
	f.Fuzz(func(t *testing.T, text string) {
		ch, err := DecodeCommand(append([]byte{changeVersion}, text...))
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, binio.ErrVersion) {
				t.Fatal(err)
			}
			return
		}
		b, err := EncodeCommand(ch.Command, &Data{Index: ch.After.Index, LastDatabaseID: ch.After.Database, LastShardGroupID: ch.After.ShardGroup, LastShardID: ch.After.Shard})
		if err != nil {
			t.Fatal(err)
		}
		again, err := DecodeCommand(b)
		if err != nil || again.After != ch.After || reflect.TypeOf(again.Command) != reflect.TypeOf(ch.Command) {
			t.Fatalf("%+v, %v, want %+v", again, err, ch)
		}
		// It may ask for anything, but breaks nothing.
		if next, _, err := ch.Apply(1, &Data{}); err == nil {
			if err := next.validate(); err != nil && !strings.Contains(err.Error(), "duration") {
				t.Fatalf("%+v makes %v", ch, err)
			}
		}
	})
}
