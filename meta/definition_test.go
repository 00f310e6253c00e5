package meta

import (
	"errors"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/query/window"
)

// TestColumns: what is stored for functions, and which tags rows keep.
func TestColumns(t *testing.T) {
	for functions, want := range map[string]string{
		"max":                    "max",
		"mean":                   "sum count",
		"count mean sum":         "count sum",
		"spread min":             "min max",
		"increase mean":          "increase sum count",
		"first stddev mean last": "first stddev sum count last",
		"":                       "",
	} {
		d := Definition{Functions: strings.Fields(functions)}
		if got := strings.Join(d.Columns(), " "); got != want {
			t.Errorf("%q: %q, want %q", functions, got, want)
		}
	}
	fields := Definition{Functions: []string{"mean", FunctionOf("max", "a(b)"), FunctionOf("spread", "a(b)"), "last", FunctionOf("increase", "n")}}
	for field, want := range map[string]string{"a(b)": "max min", "n": "increase", "x": "sum count last", "": "sum count last"} {
		if got := strings.Join(fields.ColumnsOf(field), " "); got != want {
			t.Errorf("columns of %q: %q, want %q", field, got, want)
		}
	}
	if got, want := strings.Join(fields.Columns(), " ")+"; "+strings.Join(fields.Fields(), " "), "sum count max min last increase; a(b) n"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	for _, c := range []struct {
		def  Definition
		want bool
	}{{Definition{}, true}, {Definition{Grouped: true}, false}, {Definition{Grouped: true, By: []string{"b", "a"}}, true}, {Definition{Without: []string{"a"}}, false}, {Definition{Without: []string{"b"}}, true}} {
		if got := c.def.Keeps("a"); got != c.want {
			t.Errorf("%+v keeps a: %v", c.def, got)
		}
	}
}

// TestChanges of definitions: each holds from a bound of its windows and of those before it,
// and only what can be computed again gets another one.
func TestAlterDownsample(t *testing.T) {
	policy := func(name string, d time.Duration) Command {
		return CreateRetentionPolicy{Database: "d", Policy: RetentionPolicySpec{Name: name, Duration: &d, ShardGroupDuration: ptr(day)}}
	}
	group := func(policy string, at time.Duration) Command {
		return CreateShardGroup{Database: "d", RetentionPolicy: policy, Time: int64(at)}
	}
	create := func(from string, every time.Duration, functions ...string) CreateDownsample {
		return CreateDownsample{Database: "d", From: from, Into: "hours", Definitions: []Definition{{Period: Period{Every: every}, Functions: functions}}, Time: int64(10 * day)}
	}
	alter := func(every time.Duration, add, drop string, later bool) AlterDownsample {
		return AlterDownsample{"d", "raw", "hours", Period{Every: every}, strings.Fields(add), strings.Fields(drop), later, int64(10*day + hour/2), ""}
	}
	with := func(c AlterDownsample, p Period) AlterDownsample {
		c.Period = p
		return c
	}
	history := func(d *Data) string {
		var out []string
		for _, def := range d.Database("d").Downsample("hours").Definitions {
			since := "ever"
			if def.Since != model.MinTime {
				since = time.Duration(def.Since).String()
			}
			out = append(out, since+" "+def.Period.String()+" "+strings.Join(def.Functions, ","))
		}
		return strings.Join(out, "; ")
	}
	whole := mustApply(t, empty(), CreateDatabase{Name: "d"}, policy("raw", 3*day), policy("other", 0), policy("hours", 0),
		group("raw", 7*day), group("raw", 8*day), group("raw", 9*day), group("raw", 10*day), group("hours", 7*day), group("hours", 8*day),
		create("raw", hour, "mean", "max"))
	rp, _ := whole.RetentionPolicy("d", "raw")
	lost := mustApply(t, whole, DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: rp.ShardGroups[0].ID, IfDuration: 3 * day})
	dropped := mustApply(t, lost, DropDownsample{"d", "raw", "hours"})
	for _, c := range []struct {
		name string
		data *Data
		cmd  Command
		want string // history, or a part of the error
	}{
		{"all can be computed again", whole, alter(2*hour, "sum", "", false), "ever 2h mean,max,sum"},
		{"from now on", whole, alter(2*hour, "", "max", true), "ever 1h mean; 242h0m0s 2h mean"},
		{"rows that are all that is left", lost, alter(90*time.Minute, "", "", false), "ever 1h mean,max; 192h0m0s 90m mean,max"},
		{"windows that begin together later", lost, alter(7*hour, "", "", false), "ever 1h mean,max; 196h0m0s 7h mean,max"},
		{"added and dropped", lost, alter(0, "min max", "mean", false), "ever 1h max; 192h0m0s 1h max,min"},
		{"of which the first window needs rows that are lost", lost, alter(0, "increase", "", false), "ever 1h mean,max; 193h0m0s 1h mean,max,increase"},
		{"only dropped", lost, alter(0, "", "mean", false), "ever 1h max"},
		{"replaced", lost, alter(0, "min", "mean max", false), "ever 1h ; 192h0m0s 1h min"},
		{"the same", lost, alter(hour, "max", "sum", false), "ever 1h mean,max"},
		{"nothing left", lost, alter(0, "", "mean max", false), "needs functions"},
		{"hardly ever together", lost, alter(hour+1, "", "", false), "hardly ever"},
		{"too short", lost, alter(1, "", "", false), "at least 1s"},
		{"longer than the source keeps", lost, alter(4*day, "", "", false), "needs more"},
		{"days of a zone", lost, with(alter(0, "", "", false), Period{Every: day, Zone: "Europe/Berlin"}), "ever 1h mean,max; 215h0m0s 1d tz('Europe/Berlin') mean,max"},
		{"hours of a zone", lost, with(alter(0, "", "", false), Period{Every: hour, Zone: "Europe/Berlin"}), "whole number of days"},
		{"an unknown zone", lost, with(alter(0, "", "", false), Period{Every: day, Zone: "Europe/Nowhere"}), "unknown time zone"},
		{"the zone of a machine", lost, with(alter(0, "", "", false), Period{Every: day, Zone: "Local"}), "not the same everywhere"},
		{"a month", lost, with(alter(0, "", "", false), Period{Every: window.MonthLength, Months: 1}), "a window of 1mo needs more"},
		{"no month", lost, with(alter(0, "", "", false), Period{Every: day, Months: 1}), "1 months are not 24h"},
		{"of another source", lost, AlterDownsample{Database: "d", From: "other", Into: "hours", Period: Period{Every: hour}}, "not found"},
		{"made again", dropped, create("raw", 2*hour, "count"), "ever 1h mean,max; 192h0m0s 2h count"},
		{"made again as it was", dropped, create("raw", hour, "mean", "max"), "ever 1h mean,max"},
		{"from another source", dropped, create("other", hour, "mean", "max"), "rows of policy raw that cannot"},
		{"when all has gone", mustApply(t, dropped, DropRetentionPolicy{"d", "raw"}, policy("raw", 0), group("raw", 9*day)), create("raw", 2*hour, "count"), "ever 1h mean,max; 216h0m0s 2h count"},
		{"into a new policy", mustApply(t, dropped, DropRetentionPolicy{"d", "hours"}, policy("hours", 0)), create("other", 2*hour, "count"), "ever 2h count"},
		{"with a gap between", mustApply(t, dropped, DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: rp.ShardGroups[1].ID}, group("hours", 9*day), DropShardGroup{Database: "d", RetentionPolicy: "raw", ID: rp.ShardGroups[2].ID}, group("raw", 7*day)), create("raw", 2*hour, "count"), "between times that can"},
	} {
		next, err := Apply(c.cmd, c.data)
		if err != nil {
			if !strings.Contains(err.Error(), c.want) || !errors.Is(err, ErrDownsampleInvalid) && !errors.Is(err, ErrDownsampleNotFound) {
				t.Errorf("%s: %v, want %s", c.name, err, c.want)
			}
			continue
		}
		if got := history(next); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
		if err := next.validate(); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// TestWindowsOfDefinitions compares windows across definitions with a walk over them.
func TestWindowsOfDefinitions(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 1))
	for range 300 {
		list := []Definition{{Since: model.MinTime, Period: Period{Every: hour}, Functions: []string{"max"}}}
		for at := int64(0); len(list) < 1+rnd.IntN(5); {
			at += rnd.Int64N(int64(20 * hour))
			var err error
			next := Definition{Period: Period{Every: time.Duration(1+rnd.IntN(8)) * hour / 2}, Functions: []string{"max"}}
			if list, err = follow(list, &next, at); err != nil {
				t.Fatal(err)
			}
			at = max(at, list[len(list)-1].Since)
		}
		d := Downsample{Definitions: list}
		if err := d.checkDefinitions(); err != nil {
			t.Fatalf("%+v: %v", list, err)
		}
		bounds := []int64{d.Start(-int64(5 * hour))}
		for bounds[len(bounds)-1] < int64(150*hour) {
			bounds = append(bounds, d.End(bounds[len(bounds)-1]))
		}
		for _, def := range list[1:] {
			if !slices.Contains(bounds, def.Since) {
				t.Fatalf("%v: no window begins at %v", list, time.Duration(def.Since))
			}
		}
		i, j := rnd.IntN(len(bounds)-1), rnd.IntN(len(bounds))
		at := bounds[i] + rnd.Int64N(bounds[i+1]-bounds[i])
		if d.Start(at) != bounds[i] || d.End(at) != bounds[i+1] || d.Windows(bounds[min(i, j)], bounds[max(i, j)]) != int64(max(i, j)-min(i, j)) {
			t.Fatalf("%+v: windows at %v", list, time.Duration(at))
		}
		if j > i && d.After(at, int64(j-i)) != bounds[j] {
			t.Fatalf("%+v: %d windows from %v end at %v, want %v", list, j-i, time.Duration(at), time.Duration(d.After(at, int64(j-i))), time.Duration(bounds[j]))
		}
	}
}
