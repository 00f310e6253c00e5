package golden

import "testing"

func TestDiff(t *testing.T) {
	docs := func(s string) []any {
		var v any
		if err := Decode([]byte(s), &v); err != nil {
			t.Fatal(err)
		}
		return []any{v}
	}
	rows := func(s string) string { return `{"results":[{"series":[{"columns":["time","v"],"values":` + s + `}]}]}` }
	for _, c := range []struct {
		c    Case
		a, b string
		ties bool
		same bool
	}{
		{Case{}, `[1,1.5e0]`, `[1,1.5]`, false, true},
		{Case{}, `[9007199254740993]`, `[9007199254740992]`, false, false},
		{Case{}, `[18446744073709551615]`, `[18446744073709551614]`, false, false},
		{Case{}, `[0.30000000000000004]`, `[0.3]`, false, true},
		{Case{}, `[0.3001]`, `[0.3]`, false, false},
		{Case{Tolerance: 1e-3}, `[0.3001]`, `[0.3]`, false, true},
		{Case{}, `{"a":1,"b":null}`, `{"b":null,"a":1}`, false, true},
		{Case{}, `{"a":null}`, `{}`, false, false},
		{Case{}, rows(`[[1,2],[1,3]]`), rows(`[[1,3],[1,2]]`), false, false},
		{Case{}, rows(`[[1,2],[1,3]]`), rows(`[[1,3],[1,2]]`), true, true},
		{Case{}, rows(`[[1,2],[2,3]]`), rows(`[[2,3],[1,2]]`), true, false},
		{Case{Unordered: true}, rows(`[[1,2],[2,3]]`), rows(`[[2,3],[1,2]]`), false, true},
		{Case{Mask: []string{"v"}}, rows(`[[1,2]]`), rows(`[[1,3]]`), false, true},
		{Case{Mask: []string{"w"}}, rows(`[[1,2]]`), rows(`[[1,3]]`), false, false},
		{Case{OnlyRows: "x"}, rows(`[["x",2]]`), rows(`[["y",3],["x",2]]`), false, true},
		{Case{Shape: true}, rows(`[[1,2]]`), rows(`[]`), false, true},
		{Case{}, `{"results":[{"statement_id":0}]}`, `{"results":[{"statement_id":0,"messages":[{"level":"info","text":"t"}]}]}`, false, false},
		{Case{MaskRE: [][2]string{{`\d+`, "N"}}}, `["after 12ms"]`, `["after 7ms"]`, false, true},
	} {
		if got := len(c.c.Diff(docs(c.a), docs(c.b), c.ties)) == 0; got != c.same {
			t.Errorf("%s and %s: same is %v", c.a, c.b, got)
		}
	}
}

// TestMoreRows: rows may follow the recorded ones, which must be there.
func TestMoreRows(t *testing.T) {
	doc := func(rows string) any {
		var v any
		if err := Decode([]byte(`{"results":[{"series":[{"columns":["plan"],"values":`+rows+`}]}]}`), &v); err != nil {
			t.Fatal(err)
		}
		return v
	}
	more := &Difference{More: true}
	for _, c := range []struct {
		got string
		ok  bool
	}{
		{`[["a"],["b"],["c"]]`, true},
		{`[["a"],["x"],["c"]]`, false},
		{`[["a"]]`, false},
		{`[["a"],["b"]]`, false}, // no difference any more
	} {
		recorded := &Case{Body: doc(`[["a"],["b"]]`)}
		if bad := recorded.Judge(more, []any{doc(c.got)}); (len(bad) == 0) != c.ok {
			t.Errorf("%s: %q", c.got, bad)
		}
	}
}

func TestDifferencesNameCases(t *testing.T) {
	known := Differences(t)
	total := 0
	for _, th := range Themes(t, nil) {
		for _, c := range th.Cases {
			total++
			delete(known, c.Name())
		}
	}
	for name := range known {
		t.Errorf("differences.json names %s, which is no case", name)
	}
	t.Logf("%d cases", total)
}
