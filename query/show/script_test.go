package show

import (
	"fmt"
	"log/slog"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/expr"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestShowScripts runs the scripts of testdata: what SHOW statements answer.
//
// The commands:
//
//	policy DB.RP DURATION         makes a retention policy, of shards of a day
//	cold DB.RP DURATION|INF       gives it an age for the cold store
//	load DB.RP                    writes the lines that follow, times in seconds
//	user NAME admin|DB=read ...   makes a user with rights
//	query DB NAME                 stores the continuous query that follows
//	subscribe DB.RP NAME MODE DESTINATION...
//	downsample DB INTO EVERY FUNCTIONS...   of the policy autogen
//	reads DB...                   the user may read and see only these databases
//	keep BYTES                    a statement may hold so many bytes
//	damage TEXT                   the index cannot be read
//	show                          answers each statement that follows
//
// Statements are about the database d, and their sources of the policy autogen, unless
// they name another one. now() is 1970-01-03.
func TestShowScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		store := scantest.New()
		store.ShardSpan = 24 * time.Hour
		store.Create("d", "autogen")
		memory := admission.NewMemory(1 << 20)
		s := &Statement{
			Ctx:  t.Context(),
			Keep: func(int64) error { return nil },
			Options: &Options{
				Storage: store, Catalog: store.Catalog, Now: func() time.Time { return time.Unix(2*86400, 0) },
				Running: admission.NewQueries(admission.Limits{MemoryBytes: 1 << 20}, memory, slog.New(slog.DiscardHandler)),
			},
		}
		apply := func(cmd meta.Command) {
			if err := store.Apply(t.Context(), cmd); err != nil {
				t.Fatalf("%+v: %v", cmd, err)
			}
		}
		duration := func(text string) time.Duration {
			d, err := influxql.ParseDuration(text)
			if err != nil {
				t.Fatal(err)
			}
			return d
		}
		return func(c script.Command) (out []string) {
			db, rp := "", ""
			if len(c.Args) > 0 {
				db, rp, _ = strings.Cut(c.Args[0], ".")
			}
			switch text := strings.Join(c.Input, "\n"); c.Name {
			case "policy":
				store.Create(db, rp)
				d := duration(c.Args[1])
				apply(meta.AlterRetentionPolicy{Database: db, Policy: meta.RetentionPolicySpec{Name: rp, Duration: &d, ShardGroupDuration: &store.ShardSpan}})
			case "cold":
				age := meta.NeverCold
				if c.Args[1] != "INF" {
					age = duration(c.Args[1])
				}
				apply(meta.AlterRetentionPolicy{Database: db, Policy: meta.RetentionPolicySpec{Name: rp, ColdAfter: &age}})
			case "load":
				store.Create(db, rp)
				store.Write(t, db, rp, "s", text)
			case "user":
				apply(meta.CreateUser{Name: c.Args[0], Hash: "hash", Admin: slices.Contains(c.Args, "admin")})
				for _, right := range c.Args[1:] {
					if db, may, ok := strings.Cut(right, "="); ok {
						rights := map[string]meta.Privilege{"read": meta.ReadPrivilege, "write": meta.WritePrivilege, "all": meta.AllPrivileges}
						apply(meta.SetPrivilege{Name: c.Args[0], Database: db, Privilege: rights[may]})
					}
				}
			case "query":
				apply(meta.CreateContinuousQuery{Database: db, Name: c.Args[1], Query: text})
			case "subscribe":
				apply(meta.CreateSubscription{Database: db, RetentionPolicy: rp, Subscription: meta.Subscription{Name: c.Args[1], Mode: c.Args[2], Destinations: c.Args[3:]}})
			case "downsample":
				apply(meta.CreateDownsample{Database: db, From: "autogen", Into: c.Args[1], Definitions: []meta.Definition{{Period: meta.Period{Every: duration(c.Args[2])}, Functions: c.Args[3:], Where: text}}})
			case "reads":
				may := func(db string) bool { return slices.Contains(c.Args, db) }
				s.MayRead, s.MaySee = may, may
			case "keep":
				var limit int64
				fmt.Sscan(c.Args[0], &limit)
				s.Keep = func(bytes int64) error {
					if limit -= bytes; limit < 0 {
						return fmt.Errorf("%s bytes are too few", c.Args[0])
					}
					return nil
				}
			case "damage":
				store.Damage = fmt.Errorf("%s", strings.Join(c.Args, " "))
			case "show":
				for _, text := range c.Input {
					out = append(out, s.texts(t, store, text)...)
				}
				if n := store.Views(); n != 0 {
					t.Errorf("%d views are left", n)
				}
			default:
				t.Fatalf("unknown command %q", c.Name)
			}
			return out
		}
	})
}

// texts returns the lines of the answer to a statement: a line for each row, with the
// name of its table.
func (s *Statement) texts(t *testing.T, store *scantest.Store, text string) []string {
	q, err := syntax.Parse(text, nil)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	tables, err := s.call(q.Statements[0], store.Catalog())
	out := []string{"> " + text}
	if err != nil {
		return append(out, "error: "+err.Error())
	}
	for _, table := range tables {
		head := table.Name + ": "
		for _, tag := range table.Tags {
			head += tag.Key + "=" + tag.Value + " "
		}
		out = append(out, head+strings.Join(table.Columns, ", "))
		for i := range table.Rows {
			var cells []string
			for j := range table.Columns {
				cells = append(cells, cellText(table, i, j))
			}
			out = append(out, "  "+strings.Join(cells, ", "))
		}
	}
	return out
}

// call calls the method that takes the statement, with its names completed as the
// executor does.
func (s *Statement) call(stmt influxql.Statement, catalog *meta.Data) ([]*result.Series, error) {
	fields := reflect.ValueOf(stmt).Elem()
	if db := fields.FieldByName("Database"); db.IsValid() && db.String() == "" {
		db.SetString("d")
	}
	if sources := fields.FieldByName("Sources"); sources.IsValid() {
		switch stmt.(type) {
		case *influxql.ShowTagKeysStatement, *influxql.ShowTagValuesStatement: // of all policies
			for _, source := range sources.Interface().(influxql.Sources) {
				m := source.(*influxql.Measurement)
				m.Database = "d"
			}
		default:
			if err := syntax.Resolve(sources.Interface().(influxql.Sources), catalog, "d", ""); err != nil {
				return nil, err
			}
		}
	}
	me := reflect.ValueOf(s)
	for i := range me.NumMethod() {
		if m := me.Method(i); m.Type().NumIn() == 1 && m.Type().In(0) == reflect.TypeOf(stmt) {
			out := m.Call([]reflect.Value{reflect.ValueOf(stmt)})
			err, _ := out[1].Interface().(error)
			return out[0].Interface().([]*result.Series), err
		}
	}
	return nil, fmt.Errorf("no method takes a %T", stmt)
}

// cellText prints a cell.
func cellText(table *result.Series, row, column int) string {
	if lists := table.Lists[column]; lists != nil {
		return fmt.Sprint(lists[row])
	}
	switch v := expr.ScalarAt(&table.Values[column], row); v.Type {
	case model.Integer:
		return fmt.Sprint(int64(v.Bits))
	case model.Float:
		return fmt.Sprint(table.Values[column].Floats[row])
	case model.Boolean:
		return fmt.Sprint(v.Bits == 1)
	case model.String:
		if v.Text != "" {
			return v.Text
		}
	}
	return "-"
}
