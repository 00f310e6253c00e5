package downsample

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/query/engine/plan"
	"tsdbd/query/window"
)

// TestSegments: which times come from which downsample. Times are in hours; raw has expired
// up to 48, its shard groups are of a day.
func TestSegments(t *testing.T) {
	const hour = int64(time.Hour)
	def := func(since int64, every time.Duration, functions ...string) meta.Definition {
		if since != model.MinTime {
			since *= hour
		}
		return meta.Definition{Since: since, Period: meta.Period{Every: every}, Functions: functions}
	}
	minutes := meta.Downsample{ID: 1, From: "raw", Into: "minutes", Definitions: []meta.Definition{def(model.MinTime, time.Minute, "mean", "max")}}
	hours := meta.Downsample{ID: 2, From: "raw", Into: "hours", Definitions: []meta.Definition{def(model.MinTime, time.Hour, "mean", "max", "first")}}
	days := meta.Downsample{ID: 3, From: "hours", Into: "days", Folds: true, Definitions: []meta.Definition{def(model.MinTime, 24*time.Hour, "max")}}
	changed := hours
	changed.Definitions = []meta.Definition{def(model.MinTime, 6*time.Hour, "max"), def(24, time.Hour, "max", "mean")}
	grouped := hours
	grouped.Definitions = []meta.Definition{{Since: model.MinTime, Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}, Grouped: true, By: []string{"region"}}}
	without := hours
	without.Definitions = []meta.Definition{{Since: model.MinTime, Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}, Without: []string{"pod"}}}
	quarters := grouped
	quarters.ID, quarters.Into = 4, "minutes"
	quarters.Definitions = []meta.Definition{{Since: model.MinTime, Period: meta.Period{Every: 15 * time.Minute}, Functions: []string{"max"}, Grouped: true}}
	later, chained := days, days // made when the source had expired up to 24
	later.From, later.Folds, later.Begins = "raw", false, 24*hour
	chained.Begins = 60 * hour
	steps, fields := hours, hours
	steps.Definitions = []meta.Definition{def(model.MinTime, time.Hour, "increase", "max")}
	fields.Definitions = []meta.Definition{def(model.MinTime, time.Hour, "max", "last(f)")}
	unused, eager := hours, hours
	unused.Use, eager.Use = Off, Complete
	some := hours
	some.Measurement = "other"
	some.Definitions = []meta.Definition{def(model.MinTime, time.Hour, "max")}

	for _, c := range []struct {
		name     string
		list     []meta.Downsample
		use      Use
		asked    Use
		from, to float64 // hours
		every    time.Duration
		columns  string
		tags     string
		gone     int64 // hours up to which the policy hours has expired
		allBut   bool  // tags
		step     time.Duration
		divides  time.Duration    // which windows must divide
		values   map[string]int64 // to read, of an hour of each policy
		want     string
	}{
		{name: "only what expired", list: []meta.Downsample{hours}, use: Expired, from: 0, to: 96, every: time.Hour, columns: "max", want: "hours 0-48"},
		{name: "all that is computed", list: []meta.Downsample{hours}, use: Complete, from: 0, to: 96, every: time.Hour, columns: "max", want: "hours 0-72"},
		{name: "whole windows at the ends of what expired", list: []meta.Downsample{hours}, use: Expired, from: 1.5, to: 3.5, columns: "max", want: "hours 1-4"},
		{name: "windows inside the range of what the source has", list: []meta.Downsample{hours}, use: Complete, from: 50.5, to: 60.5, columns: "max", want: "hours 51-60"},
		{name: "the longest windows", list: []meta.Downsample{minutes, hours, days}, use: Expired, from: 0, to: 96, columns: "max", want: "days 0-48"},
		{name: "windows that fill those of the statement", list: []meta.Downsample{minutes, hours, days}, use: Expired, from: 0, to: 96, every: 30 * time.Minute, columns: "max", want: "minutes 0-48"},
		{name: "functions that are kept", list: []meta.Downsample{minutes, hours, days}, use: Expired, from: 0, to: 96, columns: "first", want: "hours 0-48"},
		{name: "functions that nobody keeps", list: []meta.Downsample{minutes, hours}, use: Expired, from: 0, to: 96, columns: "last", want: "no minutes 0-48: it does not keep last"},
		{name: "one after the other", list: []meta.Downsample{minutes, hours}, use: Expired, from: 0, to: 96, columns: "max", gone: 24, want: "minutes 0-24, hours 24-48"},
		{name: "definitions", list: []meta.Downsample{changed}, use: Expired, from: 0, to: 96, columns: "max", want: "hours 0-24, hours 24-48"},
		{name: "a definition without the function", list: []meta.Downsample{changed}, use: Expired, from: 0, to: 96, columns: "sum", want: "hours 24-48, no hours 0-24: it does not keep sum"},
		{name: "tags that rows keep", list: []meta.Downsample{grouped}, use: Expired, from: 0, to: 96, columns: "max", tags: "region", want: "hours 0-48"},
		{name: "tags that rows do not keep", list: []meta.Downsample{grouped}, use: Expired, from: 0, to: 96, columns: "max", tags: "region host", want: "no hours 0-48: its rows do not keep the tag host"},
		{name: "a time before all rows, which only refused windows reach", list: []meta.Downsample{quarters, hours}, use: Expired, from: -2562047.5, to: 96, columns: "max", tags: "host", want: "hours -2562047-48"},
		{name: "a downsample of other measurements", list: []meta.Downsample{some}, use: Expired, from: 0, to: 96, columns: "max"},
		{name: "what was computed before what may be imported", list: []meta.Downsample{hours, later}, use: Expired, from: 0, to: 96, columns: "max", want: "hours 0-24, days 24-48"},
		{name: "what may be imported, if there is no other", list: []meta.Downsample{later}, use: Expired, from: 0, to: 96, columns: "max", want: "days 0-24, days 24-48"},
		{name: "what was not computed, of a chain", list: []meta.Downsample{hours, chained}, use: Complete, from: 0, to: 96, columns: "max", want: "hours 0-72"},
		{name: "the longest windows that are not too long", list: []meta.Downsample{minutes, hours, days}, use: Expired, from: 0, to: 96, columns: "max", step: 2 * time.Hour, want: "hours 0-48"},
		{name: "the shortest windows, if all are too long", list: []meta.Downsample{hours, days}, use: Expired, from: 0, to: 96, columns: "max", step: time.Minute, want: "hours 0-48"},
		{name: "long windows for what is lost alone", list: []meta.Downsample{minutes, hours}, use: Complete, from: 0, to: 96, columns: "first", step: time.Minute, want: "hours 0-48"},
		{name: "windows that fit", list: []meta.Downsample{minutes, hours, days}, use: Expired, from: 0, to: 96, columns: "max", divides: 6 * time.Hour, want: "hours 0-48"},
		{name: "windows that do not fit", list: []meta.Downsample{hours}, use: Expired, from: 0, to: 96, columns: "max", divides: 30 * time.Minute, want: "no hours 0-48: too long"},
		{name: "rows of one series each", list: []meta.Downsample{minutes, grouped}, use: Expired, from: 0, to: 96, columns: "max", allBut: true, want: "minutes 0-48"},
		{name: "rows of several series", list: []meta.Downsample{grouped}, use: Expired, from: 0, to: 96, columns: "max", allBut: true, want: "no hours 0-48: its rows are of several series"},
		{name: "rows of the groups of all tags but some", list: []meta.Downsample{without}, use: Expired, from: 0, to: 96, columns: "max", allBut: true, tags: "pod zone", want: "hours 0-48"},
		{name: "rows that lack one more", list: []meta.Downsample{without}, use: Expired, from: 0, to: 96, columns: "max", allBut: true, tags: "zone", want: "no hours 0-48: its rows are of several series"},
		{name: "rows of named groups, for all tags but some", list: []meta.Downsample{grouped}, use: Expired, from: 0, to: 96, columns: "max", allBut: true, tags: "pod", want: "no hours 0-48: its rows are of several series"},
		{name: "one that is not to be used", list: []meta.Downsample{unused, minutes}, use: Expired, from: 0, to: 96, columns: "max", want: "minutes 0-48"},
		{name: "one that is used for all that is computed", list: []meta.Downsample{eager, days}, use: Expired, from: 0, to: 96, columns: "max", want: "days 0-48, hours 48-72"},
		{name: "only one that is used", list: []meta.Downsample{eager, minutes}, use: Off, from: 0, to: 96, columns: "max", want: "hours 0-72"},
		{name: "the use that the query asks for", list: []meta.Downsample{eager, unused}, use: Off, asked: Expired, from: 0, to: 96, columns: "max", want: "hours 0-48"},
		{name: "the fewest values", list: []meta.Downsample{minutes, hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 100000, "minutes": 100, "hours": 200}, want: "minutes 0-72"},
		{name: "few values of both", list: []meta.Downsample{minutes, hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 1000, "minutes": 10, "hours": 20}, want: "hours 0-72"},
		{name: "as many values", list: []meta.Downsample{minutes, hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 1000, "minutes": 20, "hours": 20}, want: "hours 0-72"},
		{name: "more values than the source has", list: []meta.Downsample{hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 1000, "hours": 1001}, want: "hours 0-48, no hours 48-72: it has about 24024 values to read, raw 24000"},
		{name: "more values than the source, which has few", list: []meta.Downsample{hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 100, "hours": 1001}, want: "hours 0-72"},
		{name: "the source in place of one of two", list: []meta.Downsample{minutes, hours}, use: Complete, from: 0, to: 96, columns: "max", values: map[string]int64{"raw": 1000, "minutes": 2000, "hours": 20}, want: "hours 0-72, no minutes 48-72: it has about 48000 values to read, raw 24000"},
		{name: "the window whose first step begins in what expired", list: []meta.Downsample{steps}, use: Expired, from: 0, to: 96, columns: "increase", want: "hours 0-49"},
		{name: "that window only of a function that needs the one before", list: []meta.Downsample{steps}, use: Expired, from: 0, to: 96, columns: "max", want: "hours 0-48"},
		{name: "a field with functions of its own", list: []meta.Downsample{minutes, fields}, use: Expired, from: 0, to: 96, columns: "max", want: "minutes 0-48"},
		{name: "functions of that field", list: []meta.Downsample{minutes, fields}, use: Expired, from: 0, to: 96, columns: "last", want: "hours 0-48"},
		{name: "a function of other fields", list: []meta.Downsample{fields}, use: Expired, from: 0, to: 96, columns: "max", want: "no hours 0-48: it does not keep max of f"},
		{name: "nothing has expired in the range", list: []meta.Downsample{hours}, use: Expired, from: 48, to: 96, columns: "last"},
	} {
		db := &meta.Database{Name: "d", Downsamples: c.list}
		for _, name := range []string{"raw", "minutes", "hours", "days"} {
			rp := &meta.RetentionPolicy{Name: name, ShardGroups: []*meta.ShardGroup{{End: 96 * hour}}}
			if name == "raw" {
				rp.Expired = 48 * hour
			}
			if name == "hours" && c.gone > 0 {
				rp.Expired = c.gone * hour
			}
			db.RetentionPolicies = append(db.RetentionPolicies, rp)
		}
		ask := &plan.Ask{
			Database: "d", Policy: "raw", Measurement: "m", Tags: strings.Fields(c.tags),
			Range:   model.TimeRange{Min: int64(c.from * float64(hour)), Max: int64(c.to*float64(hour)) - 1},
			Windows: &window.Windows{Every: int64(c.every)}, AllBut: c.allBut, Step: c.step,
		}
		if c.divides > 0 {
			ask.Fits = func(every time.Duration) string {
				if c.divides%every != 0 {
					return "too long"
				}
				return ""
			}
		}
		if c.values != nil {
			ask.Values = func(t *plan.Target, r model.TimeRange) int64 {
				policy := "raw"
				if t != nil {
					policy = t.Policy
				}
				return c.values[policy] * ((r.Max + 1 - r.Min) / hour)
			}
		}
		for _, f := range strings.Fields(c.columns) {
			ask.Columns = append(ask.Columns, plan.Column{Function: f, Field: "f"})
		}
		chooser := &Chooser{
			Use: c.use, Asked: c.asked, Now: time.Unix(0, 96*hour),
			Until: func(_ uint64, _ string, end int64) int64 { return min(end, 72*hour) },
		}
		segments, unused := chooser.segments(db, ask)
		var got []string
		for _, s := range segments {
			got = append(got, fmt.Sprintf("%s %d-%d", s.Policy, s.Min/hour, (s.Max+1)/hour))
		}
		for _, u := range unused {
			got = append(got, fmt.Sprintf("no %s %d-%d: %s", u.Policy, u.Min/hour, (u.Max+1)/hour, u.Why))
		}
		if text := strings.Join(got, ", "); text != c.want {
			t.Errorf("%s: %s, want %s", c.name, text, c.want)
		}
	}
}
