package apptest

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/golden"
	"tsdbd/internal/testkit/testseed"
)

var (
	diffQueries = flag.Int("diff-queries", 2000, "queries that TestPeerQueries asks")
	diffShow    = flag.Int("diff-show", 10, "differences shown of each class")
)

// TestPeerQueries asks a real InfluxDB and our server generated queries over
// generated data, and compares the answers. It runs where TSDBD_PEERS is set
// and influxd is installed.
func TestPeerQueries(t *testing.T) {
	if os.Getenv("TSDBD_PEERS") == "" {
		t.Skip("TSDBD_PEERS is not set")
	}
	seed := testseed.Of(t)
	peer := startInfluxd(t)
	s := Start(t)
	g := &queryGen{rand.New(rand.NewPCG(seed, 11))}
	shown, classes := map[string]int{}, map[string]int{}
	const perSchema = 2500
	for asked := 0; asked < *diffQueries; {
		db := fmt.Sprintf("d%d", asked/perSchema)
		lines := g.lines()
		for _, base := range []string{peer, s.URL} {
			post(t, base, "/query", url.Values{"q": {"CREATE DATABASE " + db + " WITH SHARD DURATION 1d"}}, "")
			post(t, base, "/write", url.Values{"db": {db}, "precision": {"s"}}, lines)
		}
		for n := 0; n < perSchema && asked < *diffQueries; n++ {
			asked++
			q := g.query()
			vals := url.Values{"db": {db}, "q": {q}, "epoch": {"ns"}}
			want, got := post(t, peer, "/query", vals, ""), post(t, s.URL, "/query", vals, "")
			if bytes.Equal(want, got) {
				continue
			}
			bad := diffBodies(t, want, got)
			if len(bad) == 0 {
				continue
			}
			class := classify(q, bad)
			classes[class]++
			if shown[class]++; shown[class] > *diffShow {
				continue
			}
			text := fmt.Sprintf("[%s] %s\n     %s", class, q, strings.Join(bad[:min(3, len(bad))], "\n     "))
			if class == "" {
				t.Error(text)
			} else if *diffShow > 10 {
				t.Log(text)
			}
		}
	}
	known := 0
	for class, n := range classes {
		if class != "" {
			known += n
		}
	}
	t.Logf("%d queries: %d agree, %d differ as intended, %d unexplained", *diffQueries, *diffQueries-known-classes[""], known, classes[""])
	for _, class := range slices.Sorted(maps.Keys(classes)) {
		t.Logf("%6d %s", classes[class], class)
	}
}

// errorRE takes the words of an error out: they are held by the recorded cases.
var errorRE = regexp.MustCompile(`"error":"(?:[^"\\]|\\.)*"`)

func diffBodies(t *testing.T, want, got []byte) []string {
	t.Helper()
	var docs [2]any
	for i, b := range [][]byte{want, got} {
		b = errorRE.ReplaceAll(b, []byte(`"error":"x"`))
		if err := golden.Decode(b, &docs[i]); err != nil {
			return []string{fmt.Sprintf("%v: %.300q", err, b)}
		}
	}
	c := &golden.Case{Tolerance: 1e-9}
	return c.Diff(docs[:1], docs[1:], false)
}

// A peerClass is a kind of intended difference from InfluxDB 1.6.7, told by the
// query and by what differs.
type peerClass struct {
	name  string
	match func(q string, bad []string) bool
}

// peerClasses are tried in order.
var peerClasses = []peerClass{
	{"1.6 leaves distinct values in ascending order", has(`(?i)distinct\(.* DESC`)},
	{"an infinity breaks the whole answer there", func(_ string, bad []string) bool { return strings.Contains(bad[0], "unsupported value") }},
	{"integral: extra rows, random order, inexact edges of integers there", has(`integral\(`)},
	{"fill(number) puts numbers into columns of texts and booleans there", func(q string, bad []string) bool {
		return fillNumber.MatchString(q) && all(bad, `want -?[0-9.]+ got (""|false)$`)
	}},
	{"LIMIT counts the rows of each of several transformations there", has(`\b(` + transforms + `)\(.*, (` + transforms + `)\(.* LIMIT|LIMIT .*\b(` + transforms + `)\(.*, (` + transforms + `)\(`)},
	{"LIMIT counts the rows of each of several calls there, and what percentile reads", func(q string, _ []string) bool {
		return strings.Contains(q, "LIMIT") && (strings.Count(q, "(") > 2 || anyCall.MatchString(q))
	}},
	{"fill(previous) does not know the rows that OFFSET skips there", has(`fill\(previous\).*OFFSET`)},
	{"percentile: which of equal values is told by an unstable sort there", has(`percentile\(`)},
	{"1.6 leaves integers below zero as they are in abs", has(`abs\(`)},
	{"selectors of a subquery stand in the order of their groups in 1.6, of time since", has(`^SELECT x(, h)? FROM \(SELECT (min|max|first|last)\(`)},
	{"top and bottom by tags that the subquery does not select", has(`^SELECT (top|bottom)\([fgij], [hr].* FROM \(SELECT f, i`)},
	{"top of rows of equal value and time: there by chance", has(`^SELECT (top|bottom)\(x, h, .*(GROUP BY \*|GROUP BY h, r)`)},
	{"a sum of floats that is 0 except for rounding", func(_ string, bad []string) bool { return all(bad, `want -?[0-9.]+e-1[0-9] got 0$`) }},
	{"windows of several groups within: the groups stand one after another there, each beginning time anew", has(`FROM \(SELECT .*GROUP BY time\([^)]*\), (\*|h).*\) WHERE`)},
	{"stddev of one value divided by 0 is 0 in 1.6, null since", has(`stddev\([a-z]\) / `)},
	{"casts of a subquery's columns are passed over in 1.6", has(`::(string|float|integer).* FROM \(SELECT`)},
	{"fill(number) fills columns that do not exist there", has(`nosuch FROM .* fill\(`)},
	{"a window of a subquery that begins before the bound loses the rest there", unaligned},
}

const transforms = "derivative|non_negative_derivative|difference|non_negative_difference|cumulative_sum|moving_average|elapsed"

var (
	anyCall     = regexp.MustCompile(`\((\*|/)`)
	fillNumber  = regexp.MustCompile(`fill\(-?[0-9.]+\)`)
	innerWindow = regexp.MustCompile(`GROUP BY time\(([0-9]+[mhd])`)
	lowerBound  = regexp.MustCompile(`time >=? ([0-9]+)s`)
)

func has(pattern string) func(string, []string) bool {
	re := regexp.MustCompile(pattern)
	return func(q string, _ []string) bool { return re.MatchString(q) }
}

func all(bad []string, pattern string) bool {
	re := regexp.MustCompile(pattern)
	for _, b := range bad {
		if !re.MatchString(b) {
			return false
		}
	}
	return true
}

// unaligned reports whether a window of a subquery begins before the lower
// bound of the outer statement.
func unaligned(q string, _ []string) bool {
	_, inner, ok := strings.Cut(q, "FROM (SELECT")
	bound := lowerBound.FindStringSubmatch(q)
	if !ok || bound == nil {
		return false
	}
	from, _ := time.ParseDuration(bound[1] + "s")
	for _, m := range innerWindow.FindAllStringSubmatch(inner, -1) {
		every, err := time.ParseDuration(strings.Replace(m[1], "1d", "24h", 1))
		if err == nil && from%every != 0 {
			return true
		}
	}
	return false
}

func classify(q string, bad []string) string {
	for _, c := range peerClasses {
		if c.match(q, bad) {
			return c.name
		}
	}
	return ""
}

func post(t *testing.T, base, path string, vals url.Values, body string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 30*time.Second)
	defer cancel()
	form := vals.Encode()
	target, kind := base+path, "application/x-www-form-urlencoded"
	if body != "" {
		target, form, kind = target+"?"+form, body, ""
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, target, strings.NewReader(form))
	if err != nil {
		t.Fatal(err)
	}
	if kind != "" {
		req.Header.Set("Content-Type", kind)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatalf("%v: %v", vals, err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	if path == "/write" && resp.StatusCode != http.StatusNoContent {
		t.Fatalf("write: %d %s", resp.StatusCode, b)
	}
	return b
}
