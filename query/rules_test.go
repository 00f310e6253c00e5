package query

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/internal/testkit/script"
	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// TestRules runs testdata/rules.txt: what the table of statements says of each kind. It
// fails for a row of the table whose statement is not there.
func TestRules(t *testing.T) {
	asked := map[reflect.Type]bool{}
	script.Run(t, "testdata/rules.txt", func(t *testing.T) func(script.Command) []string {
		return func(c script.Command) (out []string) {
			for _, text := range c.Input {
				q, err := syntax.Parse(text, nil)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				does := []string{[...]string{"", "this node", "any node", "leader"}[PlaceOf(q)]}
				for _, stmt := range q.Statements {
					asked[reflect.TypeOf(stmt)] = true
					if !ruleOf(stmt).noTurn {
						does = append(does, "turn")
					}
					if changesState(stmt) {
						does = append(does, "not by GET")
					}
				}
				changes := Changes(q, "mine")
				for _, change := range changes {
					word := "adds"
					if change.Destroys {
						word = "destroys"
					}
					does = append(does, strings.TrimSuffix(word+" "+change.Database, " "))
					if strings.Contains(change.Statement, "secret") {
						t.Errorf("%s: %s", text, change.Statement)
					}
				}
				if OnlyReads(q) != (len(changes) == 0) {
					t.Errorf("%s: only reads: %v", text, OnlyReads(q))
				}
				out = append(out, "> "+text, "  "+needsText(q.Statements[0])+"; "+strings.Join(does, ", "))
			}
			return out
		}
	})
	for kind, r := range rules {
		if !asked[kind] {
			t.Errorf("%v has a rule, but no line in testdata/rules.txt", kind)
		}
		if r.place == 0 {
			t.Errorf("the rule of %v has no place", kind)
		}
	}
}

// needsText returns what a statement takes: admin, or R and W with the database.
func needsText(stmt influxql.Statement) string {
	var needs []string
	for _, n := range Needs(stmt, "mine") {
		switch {
		case n.Admin:
			needs = append(needs, "admin")
		case n.Privilege == meta.ReadPrivilege:
			needs = append(needs, "R "+n.Database)
		case n.Privilege == meta.WritePrivilege:
			needs = append(needs, "W "+n.Database)
		default:
			needs = append(needs, fmt.Sprint(n))
		}
	}
	if len(needs) == 0 {
		return "anyone"
	}
	return strings.Join(needs, ", ")
}
