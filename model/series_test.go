package model

import (
	"math"
	"math/rand/v2"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

// randomName returns a name as line protocol can spell it: any bytes, but no
// backslash at the end (it would escape what follows).
func randomName(r *rand.Rand) string {
	const alphabet = `\\\,= ab"é`
	runes := []rune(alphabet)
	b := make([]rune, 1+r.IntN(6))
	for i := range b {
		b[i] = runes[r.IntN(len(runes))]
	}
	return strings.TrimRight(string(b), `\`) + "z"[:r.IntN(2)]
}

func TestSeriesKeyRoundTrip(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	keys := map[string]string{}
	backslashes := 0
	for range 50_000 {
		measurement := randomName(r)
		byKey := map[string]string{}
		for range r.IntN(4) {
			byKey[randomName(r)] = randomName(r)
		}
		var tags Tags
		for k, v := range byKey {
			tags = append(tags, Tag{k, v})
		}
		tags.Sort()
		if !slices.IsSortedFunc(tags, func(a, b Tag) int { return strings.Compare(a.Key, b.Key) }) {
			t.Fatalf("seed %d: not sorted: %q", seed, tags)
		}
		key := string(AppendSeriesKey(nil, measurement, tags))
		m, got := ParseSeriesKey(key, nil)
		if m != measurement || !slices.Equal(got, tags) {
			t.Fatalf("seed %d: %q %q gives key %q, which reads as %q %q", seed, measurement, tags, key, m, got)
		}
		if m := SeriesMeasurement(key); m != measurement {
			t.Fatalf("seed %d: measurement of %q is %q, want %q", seed, key, m, measurement)
		}
		// Names never hold a zero byte, so this names the series exactly.
		id := measurement
		for _, tag := range tags {
			id += "\x00" + tag.Key + "\x00" + tag.Value
		}
		if other, ok := keys[key]; ok && other != id {
			t.Fatalf("seed %d: %q and %q share the key %q", seed, id, other, key)
		}
		keys[key] = id
		if strings.Contains(id, `\`) {
			backslashes++
		}
	}
	if backslashes < 10_000 {
		t.Errorf("only %d names with backslashes", backslashes)
	}
}

func TestSeriesKeySpelling(t *testing.T) {
	for _, tc := range []struct {
		measurement string
		tags        Tags
		key         string
	}{
		{"cpu", nil, "cpu"},
		{"cpu", Tags{{"host", "a"}, {"region", "eu"}}, "cpu,host=a,region=eu"},
		{"disk io", Tags{{"path name", "/a,b=c"}}, `disk\ io,path\ name=/a\,b\=c`},
		{"a=b", Tags{{"c=d", "e"}}, `a=b,c\=d=e`},
		{`a\b`, Tags{{`c\d`, `\e`}}, `a\b,c\d=\e`},
		{`a\,b`, Tags{{`c`, `\ d`}}, `a\\,b,c=\\ d`},
	} {
		if got := string(AppendSeriesKey([]byte("x"), tc.measurement, tc.tags)); got != "x"+tc.key {
			t.Errorf("key of %q %q is %q, want %q behind x", tc.measurement, tc.tags, got, tc.key)
		}
	}
}

// FuzzParseSeriesKey: no input panics or makes more tags than it has commas.
func FuzzParseSeriesKey(f *testing.F) {
	for _, s := range []string{"", ",", "cpu,host=a", `a\,b,c=\`, "m,k", "m,=,=", `m,a=b\=c=d`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, key string) {
		m, tags := ParseSeriesKey(key, Tags{{"kept", "1"}})
		if m != SeriesMeasurement(key) || len(tags) > 1+strings.Count(key, ",") || tags[0] != (Tag{"kept", "1"}) {
			t.Fatalf("%q reads as %q %q", key, m, tags)
		}
	})
}

func TestTagExprMatch(t *testing.T) {
	tags := Tags{{"dc", "eu"}, {"host", "a1"}}
	eq := func(k, v string) *TagExpr { return &TagExpr{Op: TagEqual, Key: k, Value: v} }
	ne := func(k, v string) *TagExpr { return &TagExpr{Op: TagNotEqual, Key: k, Value: v} }
	re := func(op TagOp, k, v string) *TagExpr {
		return &TagExpr{Op: op, Key: k, Regex: regexp.MustCompile(v)}
	}
	both := func(op TagOp, l, r *TagExpr) *TagExpr { return &TagExpr{Op: op, Left: l, Right: r} }
	yes, no := &TagExpr{Op: TagAll}, &TagExpr{Op: TagNone}
	for name, tc := range map[string]struct {
		expr *TagExpr
		want bool
	}{
		"nil":                {nil, true},
		"all":                {yes, true},
		"none":               {no, false},
		"equal":              {eq("host", "a1"), true},
		"equal other":        {eq("host", "a2"), false},
		"equal absent":       {eq("rack", "1"), false},
		"absent is empty":    {eq("rack", ""), true},
		"present not empty":  {eq("host", ""), false},
		"differs":            {ne("host", "a2"), true},
		"differs not":        {ne("host", "a1"), false},
		"absent differs":     {ne("rack", "1"), true},
		"absent not empty":   {ne("rack", ""), false},
		"match unanchored":   {re(TagMatch, "host", "1"), true},
		"match anchored":     {re(TagMatch, "host", "^1"), false},
		"match absent":       {re(TagMatch, "rack", "^$"), true},
		"match not":          {re(TagNotMatch, "host", "^b"), true},
		"match not absent":   {re(TagNotMatch, "rack", ".*"), false},
		"and":                {both(TagAnd, eq("dc", "eu"), ne("host", "b")), true},
		"and not":            {both(TagAnd, eq("dc", "eu"), eq("host", "b")), false},
		"or":                 {both(TagOr, eq("dc", "us"), eq("host", "a1")), true},
		"or not":             {both(TagOr, no, no), false},
		"and of nil":         {both(TagAnd, nil, yes), true},
		"unknown op is none": {&TagExpr{}, false},
	} {
		if got := tc.expr.Match(tags); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

// TestTimeRange compares with sets of instants.
func TestTimeRange(t *testing.T) {
	set := func(r TimeRange) (s uint16) {
		for i := range int64(8) {
			if r.Contains(i) {
				s |= 1 << i
			}
		}
		return s
	}
	var all []TimeRange
	for lo := range int64(8) {
		for hi := range int64(8) {
			all = append(all, TimeRange{lo, hi})
		}
	}
	for _, a := range all {
		if a.Empty() != (set(a) == 0) {
			t.Fatalf("%v: empty %v", a, a.Empty())
		}
		for _, b := range all {
			if set(a.Intersect(b)) != set(a)&set(b) {
				t.Fatalf("%v and %v intersect in %v", a, b, a.Intersect(b))
			}
			if a.Empty() || b.Empty() {
				continue
			}
			if a.Overlaps(b) != (set(a)&set(b) != 0) || a.Covers(b) != (set(a)|set(b) == set(a)) || !a.Union(b).Covers(a) || !a.Union(b).Covers(b) {
				t.Fatalf("%v and %v: overlaps %v, covers %v, union %v", a, b, a.Overlaps(b), a.Covers(b), a.Union(b))
			}
		}
	}
	if AllTime.Contains(MinTime-1) || AllTime.Contains(MaxTime+1) || !AllTime.Contains(0) {
		t.Error("AllTime is not the legal range")
	}
}

func TestNanoseconds(t *testing.T) {
	for _, c := range []struct {
		time string
		want int64
	}{
		{"0001-01-01T00:00:00Z", math.MinInt64},
		{"1677-09-21T00:12:43.145224191Z", math.MinInt64},
		{"1677-09-21T00:12:43.145224192Z", math.MinInt64},
		{"1677-09-21T00:12:43.145224193Z", math.MinInt64 + 1},
		{"1970-01-01T00:00:01Z", 1e9},
		{"2262-04-11T23:47:16.854775806Z", MaxTime},
		{"2262-04-11T23:47:16.854775808Z", math.MaxInt64},
		{"9999-12-31T00:00:00Z", math.MaxInt64},
	} {
		at, err := time.Parse(time.RFC3339Nano, c.time)
		if err != nil {
			t.Fatal(err)
		}
		if got := Nanoseconds(at); got != c.want {
			t.Errorf("%s: %d, want %d", c.time, got, c.want)
		}
	}
}

func TestFieldType(t *testing.T) {
	for ft, want := range map[FieldType]struct {
		name           string
		valid, numeric bool
	}{
		Unknown: {"unknown", false, false}, Float: {"float", true, true}, Integer: {"integer", true, true},
		Unsigned: {"unsigned", true, true}, String: {"string", true, false}, Boolean: {"boolean", true, false},
		9: {"FieldType(9)", false, false},
	} {
		if ft.String() != want.name || ft.Valid() != want.valid || ft.Numeric() != want.numeric {
			t.Errorf("%d: %s, valid %v, numeric %v; want %+v", ft, ft, ft.Valid(), ft.Numeric(), want)
		}
	}
}
