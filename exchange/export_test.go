package exchange

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
	"testing"
	"time"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
)

// source has two databases, one of them with two policies.
func source(t *testing.T) *scantest.Store {
	s := scantest.New()
	s.Create("d", "autogen")
	s.Create("d", "long \"one\"")
	s.Create("e", "autogen")
	s.Write(t, "d", "", "s", "m,h=a f=1.5,i=2i,b=true,s=\"a \\\"b\\\"\",u=3u 10\nm,h=a f=-0 20\nn\\ x v=1 604800")
	s.Write(t, "d", "long \"one\"", "s", "m,h=b f=1e300 10")
	s.Write(t, "e", "", "s", "other v=0x7ff0000000000002 5")
	return s
}

func export(t *testing.T, s Source, opt ExportOptions) string {
	t.Helper()
	opt.Workers = 1
	var out strings.Builder
	n, err := Export(t.Context(), s, &out, opt)
	if err != nil {
		return "error: " + err.Error()
	}
	lines := 0
	for line := range strings.Lines(out.String()) {
		if !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "CREATE ") {
			lines++
		}
	}
	if n != int64(lines) {
		t.Errorf("%d points told, %d lines written", n, lines)
	}
	if s.(*scantest.Store).Views() != 0 {
		t.Error("a view was not released")
	}
	return out.String()
}

// TestExport shows what an export writes.
func TestExport(t *testing.T) {
	s := source(t)
	f := func(opt ExportOptions, want string) {
		t.Helper()
		if got := export(t, s, opt); got != want {
			t.Errorf("%+v\n got %s\nwant %s", opt, got, want)
		}
	}
	const week = "REPLICATION 1 SHARD DURATION 168h"
	f(ExportOptions{Filter: Filter{Database: "d"}}, `# TSDBD EXPORT: 1677-09-21T00:12:43.145224194Z - 2262-04-11T23:47:16.854775806Z
# DDL
CREATE DATABASE "d" WITH DURATION INF `+week+` NAME "autogen"
CREATE RETENTION POLICY "long \"one\"" ON "d" DURATION INF `+week+`
# DML
# CONTEXT-DATABASE:d
# CONTEXT-RETENTION-POLICY:autogen
m,h=a b=true,f=1.5,i=2i,s="a \"b\"",u=3u 10000000000
m,h=a f=-0 20000000000
n\ x v=1 604800000000000
# CONTEXT-DATABASE:d
# CONTEXT-RETENTION-POLICY:long "one"
m,h=b f=1e+300 10000000000
`)
	f(ExportOptions{Filter: Filter{Database: "e"}, NewDatabase: "new", SkipDefinitions: true}, `# TSDBD EXPORT: 1677-09-21T00:12:43.145224194Z - 2262-04-11T23:47:16.854775806Z
# DML
# CONTEXT-DATABASE:new
# CONTEXT-RETENTION-POLICY:autogen
other v=0x7ff0000000000002 5000000000
`)
	lines := ExportOptions{LinesOnly: true}
	for _, c := range []struct {
		filter Filter
		want   string
	}{
		{Filter{Measurements: []string{"m"}, Range: model.TimeRange{Min: 15e9, Max: 99e9}}, "m,h=a f=-0 20000000000\n"},
		{Filter{Measurements: []string{"n*"}}, "n\\ x v=1 604800000000000\n"},
		{Filter{Database: "d", RetentionPolicy: "long \"one\""}, "m,h=b f=1e+300 10000000000\n"},
		{Filter{Shards: []uint64{2}}, "n\\ x v=1 604800000000000\n"},
		{Filter{Measurements: []string{"/^n.x$/", "/nothing/"}}, "n\\ x v=1 604800000000000\n"},
		{Filter{Measurements: []string{"nothing"}}, ""},
		{Filter{Measurements: []string{"["}}, "error: measurement pattern \"[\": syntax error in pattern"},
		{Filter{Measurements: []string{"/(/"}}, "error: measurement pattern \"/(/\": error parsing regexp: missing closing ): `(`"},
		{Filter{Database: "nope"}, "error: database not found: nope"},
		{Filter{Database: "d", RetentionPolicy: "nope"}, "error: retention policy not found: nope"},
		{Filter{RetentionPolicy: "autogen"}, "error: a retention policy can be chosen only together with its database"},
		{Filter{Shards: []uint64{9}}, "error: shard not found: 9"},
	} {
		lines.Filter = c.filter
		f(lines, c.want)
	}
	f(ExportOptions{NewDatabase: "new"}, "error: a new name needs the one database, or retention policy, that gets it")
}

// TestExportColdAges: policies with ages of their own for the cold store have them behind the
// statements that make them, also under other names.
func TestExportColdAges(t *testing.T) {
	s := source(t)
	week, never := 7*24*time.Hour, meta.NeverCold
	for policy, age := range map[string]*time.Duration{"autogen": &week, "long \"one\"": &never} {
		if err := s.Apply(t.Context(), meta.AlterRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: policy, ColdAfter: age}}); err != nil {
			t.Fatal(err)
		}
	}
	f := func(opt ExportOptions, want string) {
		t.Helper()
		var out strings.Builder
		if _, err := Export(t.Context(), s, &out, opt); err != nil {
			t.Fatal(err)
		}
		_, rest, _ := strings.Cut(out.String(), "NAME \"autogen\"\n")
		if got, _, _ := strings.Cut(rest, "# DML\n"); got != want {
			t.Errorf("got %s\nwant %s", got, want)
		}
	}
	f(ExportOptions{Filter: Filter{Database: "d"}}, `CREATE RETENTION POLICY "long \"one\"" ON "d" DURATION INF REPLICATION 1 SHARD DURATION 168h
ALTER RETENTION POLICY autogen ON d COLD 1w
ALTER RETENTION POLICY "long \"one\"" ON d COLD INF
`)
	f(ExportOptions{Filter: Filter{Database: "d", RetentionPolicy: "autogen"}, NewDatabase: "new db"}, "ALTER RETENTION POLICY autogen ON \"new db\" COLD 1w\n")
	f(ExportOptions{Filter: Filter{Database: "e"}}, "")
}

// TestExportEnds: an error of the writer, of the storage, and of the context ends
// an export of several workers.
func TestExportEnds(t *testing.T) {
	s := scantest.New()
	s.Create("d", "autogen")
	var lines strings.Builder
	for i := range 3 * taskSeries {
		fmt.Fprintf(&lines, "m,h=%d v=1 1\n", i)
	}
	s.Write(t, "d", "", "s", lines.String())
	opt := ExportOptions{Workers: 4, LinesOnly: true}
	if n, err := Export(t.Context(), s, io.Discard, opt); n != 3*taskSeries || err != nil {
		t.Errorf("%d points, %v", n, err)
	}
	if _, err := Export(t.Context(), s, brokenWriter{}, opt); !errors.Is(err, errNoRoom) {
		t.Errorf("a writer that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	opt.Progress = func(int64) { cancel() }
	if _, err := Export(ctx, s, io.Discard, opt); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that ends: %v", err)
	}
	if s.Views() != 0 {
		t.Errorf("%d views were not released", s.Views())
	}
}

var errNoRoom = errors.New("no room")

type brokenWriter struct{}

func (brokenWriter) Write([]byte) (int, error) { return 0, errNoRoom }

// TestDefinitions: what the catalog lacks is made, what it has stays.
func TestDefinitions(t *testing.T) {
	s := source(t)
	if err := s.Apply(t.Context(), meta.CreateUser{Name: "old", Hash: "h"}); err != nil {
		t.Fatal(err)
	}
	d := &Definitions{
		Users:         []*meta.User{{Name: "old", Admin: true}, {Name: "new", Hash: "h", Privileges: map[string]meta.Privilege{"d": meta.ReadPrivilege, "nope": meta.ReadPrivilege}}},
		Queries:       []Continuous{{"d", "q", "CREATE CONTINUOUS QUERY q ON d BEGIN SELECT mean(v) INTO x FROM m GROUP BY time(1h) END"}},
		Downsamples:   []Downsample{{Database: "d", Definition: meta.Downsample{From: "autogen", Into: "long \"one\"", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}}}},
		Subscriptions: []Subscription{{"d", "autogen", meta.Subscription{Name: "s", Mode: "ANY", Destinations: []string{"udp://h:1"}}}},
		Limits:        []WriteLimits{{"d", "autogen", time.Hour, 0}, {"d", "limited", time.Hour, 2 * time.Hour}, {"d", "nope", time.Hour, 0}, {"nope", "autogen", time.Hour, 0}},
	}
	minute := time.Minute
	if err := s.Apply(t.Context(), meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "limited", PastWriteLimit: &minute}}); err != nil {
		t.Fatal(err)
	}
	made, err := MakeDefinitions(t.Context(), s, d)
	if want := (Defined{Users: 1, Queries: 1, Downsamples: 1, Subscriptions: 1, Limits: 1}); err != nil || made != want {
		t.Errorf("made %+v, %v", made, err)
	}
	for _, to := range []Catalog{s, &busyCatalog{Store: s}} {
		if made, err := MakeDefinitions(t.Context(), to, d); err != nil || made != (Defined{}) {
			t.Errorf("made again: %+v, %v", made, err)
		}
	}
	db := s.Catalog().Database("d")
	if rp, other := db.RetentionPolicy("autogen"), db.RetentionPolicy("limited"); rp.FutureWriteLimit != time.Hour || rp.PastWriteLimit != 0 || other.FutureWriteLimit != 0 || other.PastWriteLimit != minute {
		t.Errorf("limits %+v, %+v", rp, other)
	}
	if u := s.Catalog().User("old"); u.Admin {
		t.Error("a user that was there has changed")
	}
	if u := s.Catalog().User("new"); len(u.Privileges) != 1 {
		t.Errorf("grants %v", u.Privileges)
	}
}

// TestGrants: users that are there get the grants on new databases, and no others.
func TestGrants(t *testing.T) {
	s := source(t)
	apply := func(commands ...meta.Command) {
		t.Helper()
		for _, c := range commands {
			if err := s.Apply(t.Context(), c); err != nil {
				t.Fatal(err)
			}
		}
	}
	apply(meta.CreateUser{Name: "writer", Hash: "h"}, meta.CreateUser{Name: "admin", Hash: "h", Admin: true}, meta.CreateUser{Name: "given", Hash: "h"},
		meta.SetPrivilege{Name: "given", Database: "d", Privilege: meta.ReadPrivilege})
	all := map[string]meta.Privilege{"d": meta.WritePrivilege, "e": meta.AllPrivileges, "nope": meta.ReadPrivilege}
	d := &Definitions{New: []string{"d", "nope"}, Users: []*meta.User{
		{Name: "writer", Admin: true, Privileges: all}, {Name: "admin", Privileges: all}, {Name: "given", Privileges: all}, {Name: "new", Hash: "h", Privileges: all},
	}}
	made, err := MakeDefinitions(t.Context(), s, d)
	if want := (Defined{Users: 1, Grants: 1}); err != nil || made != want {
		t.Errorf("made %+v, %v, want %+v", made, err, want)
	}
	for name, want := range map[string]map[string]meta.Privilege{
		"writer": {"d": meta.WritePrivilege}, "admin": nil, "given": {"d": meta.ReadPrivilege}, "new": {"d": meta.WritePrivilege, "e": meta.AllPrivileges},
	} {
		if got := s.Catalog().User(name); got == nil || !maps.Equal(got.Privileges, want) {
			t.Errorf("%s has %+v, want %v", name, got, want)
		}
	}
	if s.Catalog().User("writer").Admin {
		t.Error("a user has become an administrator")
	}
}

// busyCatalog is a catalog that others change as well.
type busyCatalog struct {
	*scantest.Store
	changes int
}

func (c *busyCatalog) Apply(ctx context.Context, cmd meta.Command) error {
	c.changes++
	return errors.Join(c.Store.Apply(ctx, meta.CreateDatabase{Name: fmt.Sprint("other", c.changes)}), c.Store.Apply(ctx, cmd))
}
