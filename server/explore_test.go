package server

import (
	"context"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/query/syntax"
	"tsdbd/store"
)

// TestCardinalitiesAgainstSeries holds every statement of cardinality, and the
// explorer, against a count over the keys of the living series, in a store of
// several shards with files, memory and deletes.
func TestCardinalitiesAgainstSeries(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 31))
	for range 6 {
		dir := t.TempDir()
		st := openStore(t, dir)
		if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
			t.Fatal(err)
		}
		living := map[string]bool{}
		for range 6 {
			var lines strings.Builder
			for range r.IntN(120) {
				key := fmt.Sprintf("m%d", r.IntN(3))
				for _, tag := range []string{"a", "b", "c"} {
					if r.IntN(3) > 0 {
						key += fmt.Sprintf(",%s=%s%d", tag, tag, r.IntN(12))
					}
				}
				living[key] = true
				fmt.Fprintf(&lines, "%s f=1 %d\n", key, int64(r.IntN(4))*7*24*3600)
			}
			writeLines(t, st, lines.String())
			e := query.New(query.Options{Storage: st, Admin: engine{Store: st}})
			if r.IntN(2) == 0 {
				value := fmt.Sprintf("a%d", r.IntN(12))
				ask(t, e, fmt.Sprintf("DROP SERIES WHERE a = '%s'", value))
				for key := range living {
					if strings.Contains(key+",", ",a="+value+",") {
						delete(living, key)
					}
				}
			}
			if r.IntN(2) == 0 {
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
				st = openStore(t, dir)
				e = query.New(query.Options{Storage: st, Admin: engine{Store: st}})
			}
			checkCardinalities(t, e, living)
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func openStore(t *testing.T, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func writeLines(t *testing.T, st *store.Store, lines string) {
	t.Helper()
	table, err := st.Table("db")
	if err != nil {
		t.Fatal(err)
	}
	var p lineproto.Parser
	var batch point.Batch
	if _, err = p.Parse(&batch, table, []byte(lines), lineproto.Options{Unit: 1e9}); err == nil {
		err = st.Write(context.Background(), "db", "", &batch)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// ask runs a statement and returns name -> first integer of each table.
func ask(t *testing.T, e *query.Executor, text string) map[string]int64 {
	t.Helper()
	q, err := syntax.Parse(text, nil)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]int64{}
	err = e.Execute(t.Context(), q, query.ExecuteOptions{Database: "db"}, func(r *result.Result) error {
		for _, s := range r.Series {
			name := s.Name
			for _, tag := range s.Tags {
				name += "," + tag.Key + "=" + tag.Value
			}
			out[name] = s.Values[len(s.Values)-1].Ints[0]
		}
		return r.Err
	})
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return out
}

func checkCardinalities(t *testing.T, e *query.Executor, living map[string]bool) {
	t.Helper()
	measurements, series := map[string]int64{}, int64(len(living))
	pairs := map[[2]string]int64{}                           // key, value -> series
	byKey := map[string]int64{}                              // series
	values, groups := map[string]int64{}, map[string]int64{} // of b and c by measurement; series by measurement and a
	seen := map[[3]string]bool{}
	for key := range living {
		name, tags := model.ParseSeriesKey(key, nil)
		measurements[name]++
		groups[name+",a="+tags.Get("a")]++
		for _, tag := range tags {
			pairs[[2]string{tag.Key, tag.Value}]++
			byKey[tag.Key]++
			if id := [3]string{name, tag.Key, tag.Value}; tag.Key != "a" && !seen[id] {
				seen[id] = true
				values[name]++
			}
		}
	}
	one := func(n int64) map[string]int64 { return map[string]int64{"": n} }
	orNone := func(n int64) map[string]int64 {
		if n == 0 {
			return map[string]int64{}
		}
		return one(n)
	}
	for text, want := range map[string]map[string]int64{
		"SHOW SERIES CARDINALITY":                                   one(series),
		"SHOW SERIES EXACT CARDINALITY":                             measurements,
		"SHOW SERIES EXACT CARDINALITY GROUP BY a":                  groups,
		"SHOW MEASUREMENT CARDINALITY":                              one(int64(len(measurements))),
		"SHOW MEASUREMENT EXACT CARDINALITY":                        orNone(int64(len(measurements))),
		"SHOW TAG VALUES EXACT CARDINALITY WITH KEY =~ /^[bc]$/":    values,
		"SHOW TAG VALUES CARDINALITY WITH KEY IN (b, c, d) LIMIT 5": values,
	} {
		if got := ask(t, e, text); !reflect.DeepEqual(got, want) {
			t.Fatalf("%s: %v, want %v", text, got, want)
		}
	}
	for _, top := range []int{3, 1000} {
		found, err := e.Explore(t.Context(), show.Exploration{Database: "db", Top: top, Range: model.AllTime, Keys: true, Values: true})
		if err != nil {
			t.Fatal(err)
		}
		if found.Series != series || found.Pairs != int64(len(pairs)) || len(found.Measurements) != len(measurements) || len(found.Keys) != len(byKey) {
			t.Fatalf("explored %+v, want %d series, %d pairs", found, series, len(pairs))
		}
		for _, m := range found.Measurements {
			if m.Series != measurements[m.Name] {
				t.Fatalf("%v, want %v", found.Measurements, measurements)
			}
		}
		for _, k := range found.Keys {
			distinct := int64(0)
			for pair := range pairs {
				if pair[0] == k.Key {
					distinct++
				}
			}
			if k.Series != byKey[k.Key] || k.Values != distinct {
				t.Fatalf("%+v, want %d values, %d series", k, distinct, byKey[k.Key])
			}
		}
		var want []show.ValueCount
		for pair, n := range pairs {
			want = append(want, show.ValueCount{Key: pair[0], Value: pair[1], Series: n})
		}
		slices.SortFunc(want, func(a, b show.ValueCount) int {
			if a.Series != b.Series {
				return int(b.Series - a.Series)
			}
			return strings.Compare(a.Key+a.Value, b.Key+b.Value)
		})
		if want = want[:min(top, len(want))]; !slices.Equal(found.Values, want) {
			t.Fatalf("top %d\n got %v\nwant %v", top, found.Values, want)
		}
		plain, err := e.Explore(t.Context(), show.Exploration{Database: "db", Range: model.AllTime, Keys: true})
		if err != nil || !reflect.DeepEqual(plain.Keys, found.Keys) {
			t.Fatalf("keys alone %v %v, want %v", plain.Keys, err, found.Keys)
		}
	}
}
