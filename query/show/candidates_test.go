package show

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
)

// unlisted is a storage whose index does not know which measurements satisfy a predicate.
type unlisted struct{ scan.Storage }

type unlistedView struct{ scan.View }

type unlistedShard struct{ scan.Shard }

func (u unlisted) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := u.Storage.View(db, rp, r)
	if err != nil {
		return nil, err
	}
	return unlistedView{v}, nil
}

func (u unlistedView) Shards() (all []scan.Shard) {
	for _, sh := range u.View.Shards() {
		all = append(all, unlistedShard{sh})
	}
	return all
}

func (u unlistedShard) Charged(charge func(bytes int64) error) scan.Shard {
	return unlistedShard{u.Shard.Charged(charge)}
}

func (u unlistedShard) MeasurementsWhere(context.Context, *model.TagExpr) ([]string, bool, error) {
	return u.Measurements(), false, nil
}

// TestCandidatesChangeNoAnswer asks random statements of a store whose index lists the
// measurements that satisfy a predicate, and of one that lists all: answers are the same.
// Measurements have other tags in other shards, and names of tags as fields.
func TestCandidatesChangeNoAnswer(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 3))
	pick := func(of ...string) string { return of[r.IntN(len(of))] }
	for range 40 {
		store := scantest.New()
		store.ShardSpan = 24 * time.Hour
		store.Create("d", "autogen")
		var lines []string
		for range 5 + r.IntN(40) {
			line := fmt.Sprintf("m%d", r.IntN(8))
			for _, key := range []string{"a", "b", "c"} {
				if r.IntN(2) == 0 {
					line += fmt.Sprintf(",%s=%s", key, pick("x", "y", "z"))
				}
			}
			line += " " + pick("f=1", "f=1", "f=1", "a=1", "b=1,f=2")
			lines = append(lines, fmt.Sprintf("%s %d", line, r.IntN(3*86400)))
		}
		store.Write(t, "d", "autogen", "s", strings.Join(lines, "\n"))
		var condition func(depth int) string
		condition = func(depth int) string {
			if depth > 0 && r.IntN(2) == 0 {
				return "(" + condition(depth-1) + pick(" AND ", " OR ") + condition(depth-1) + ")"
			}
			key := pick("a", "b", "c", "a", "b", "c", "_name", "nosuch")
			if key == "_name" && r.IntN(2) == 0 {
				return "_name" + pick(" = 'm1'", " != 'm2'", " =~ /[1-3]/")
			}
			return key + pick(" = 'x'", " != 'x'", " = ''", " != ''", " =~ /x|y/", " !~ /x/", " =~ /.*/", " IN ('x','z')", " NOT IN ('x','y')")
		}
		var texts []string
		for range 60 {
			where := " WHERE " + condition(2)
			from := pick("", "", " FROM /m[1-5]/", " FROM m1, m2")
			key := pick("= a", "= nosuch", "IN (a, b)", "=~ /a|c/", "!= b")
			limit := pick("", "", " LIMIT 2")
			texts = append(texts, pick(
				"SHOW SERIES"+from+where,
				"SHOW SERIES"+from+where+" AND time >= 86400s",
				"SHOW MEASUREMENTS"+where,
				"SHOW TAG KEYS"+from+where,
				"SHOW TAG KEYS"+from+" WITH KEY "+key+where,
				"SHOW TAG VALUES"+from+" WITH KEY "+key,
				"SHOW TAG VALUES"+from+" WITH KEY "+key+where,
				"SHOW TAG VALUES"+from+" WITH KEY "+key+where+" AND value != 'x'",
				"SHOW TAG VALUES EXACT CARDINALITY"+from+" WITH KEY "+key+where,
			)+limit)
		}
		ask := func(storage scan.Storage) (answers []string) {
			s := &Statement{
				Ctx: t.Context(), Keep: func(int64) error { return nil },
				Options: &Options{Storage: storage, Catalog: store.Catalog, Now: func() time.Time { return time.Unix(3*86400, 0) }},
			}
			for _, text := range texts {
				answers = append(answers, strings.Join(s.texts(t, store, text), "\n"))
			}
			return answers
		}
		got, want := ask(store), ask(unlisted{store})
		for i := range want {
			if got[i] != want[i] {
				t.Fatalf("seed %d:\n%s\n%s\nwithout a list:\n%s", seed, strings.Join(lines, "\n"), got[i], want[i])
			}
		}
	}
}
