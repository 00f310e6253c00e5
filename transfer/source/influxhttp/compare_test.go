package influxhttp

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/compare"
)

// TestCompare: rows that no query with bounds of time shows are missed by the comparison,
// also if there are rows of the future, as of writers that still write. What such writers
// have written meanwhile is no difference.
func TestCompare(t *testing.T) {
	present := time.Now().UnixNano()
	rows := []fakeRow{{"m", "a", model.AllTime.Min, 1}, {"m", "a", 0, 1}, {"m", "a", present + hour, 2}}
	for _, c := range []struct {
		lost  string    // of the lines that are written
		added []fakeRow // to the source after the import
		want  string
	}{
		{},
		{added: []fakeRow{{"m", "a", present + 2*hour, 3}}},
		{lost: rows[0].line(), want: `field "v" of "m" of d.p: count 2 in old, 1 in new`},
		{lost: rows[0].line(), added: []fakeRow{{"m", "a", present + 2*hour, 3}}, want: `field "v" of "m" of d.p: count 2 in old, 1 in new`},
		{added: []fakeRow{{"m", "b", 7, 3}}, want: `field "v" of "m" of d.p: count 3 in old, 2 in new`},
	} {
		f, to := newFake(t, "1.6.7", rows...), newTarget(t)
		f.groups = [][2]string{{"2262-04-10T23:34:33Z", "1677-09-27T00:00:00Z"}, {"1677-09-27T00:00:00Z", "2262-04-11T23:47:16Z"}}
		p, err := pulled(t, f, to, pullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		f.add(c.added...)
		delete(to.lines, c.lost)
		source, target, err := p.Compare(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		for _, d := range compare.Differences(source, target) {
			got = append(got, d.Text("old", "new"))
		}
		if text := strings.Join(got, "\n"); text != c.want {
			t.Errorf("without %q, with %v: got %q, want %q", c.lost, c.added, text, c.want)
		}
	}
}

// TestCompareVersions: each version counts for the comparison. InfluxDB 3.x takes queries in URLs
// only.
func TestCompareVersions(t *testing.T) {
	for _, version := range []string{"1.12.2", "v2.7.1", "3.4.0"} {
		f, to := newFake(t, version, fakeRow{"m", "a", 5, 1}, fakeRow{"m", "b", 7, 2}), newTarget(t)
		p, err := pulled(t, f, to, pullOptions{})
		if err != nil {
			t.Fatal(err)
		}
		source, target, err := p.Compare(t.Context())
		if err != nil || source.Values() != 2 || len(compare.Differences(source, target)) > 0 {
			t.Errorf("%s: %v, %d values, differences %v", version, err, source.Values(), compare.Differences(source, target))
		}
	}
}

// TestJudge: what is done about an error is decided by it.
func TestJudge(t *testing.T) {
	for _, c := range []struct {
		err  error
		want verdict
	}{
		{errTruncated, split},
		{fmt.Errorf("read: %w", errStalled), split},
		{fmt.Errorf("read: %w", &fs.PathError{Op: "write", Path: "refused", Err: syscall.ENOSPC}), give},
		{&exchange.QueryError{Text: "query-timeout limit exceeded"}, split},
		{&exchange.QueryError{Text: "max-concurrent-queries limit exceeded(5, 5)"}, again},
		{&exchange.QueryError{Text: "Query would scan 500 Parquet files, exceeding the file limit"}, split},
		{&exchange.QueryError{Text: "database not found: d"}, give},
		{&exchange.WriteError{Status: 400, Message: "error parsing query"}, give},
		{&exchange.WriteError{Status: 401}, give},
		{&exchange.WriteError{Status: 429}, again},
		{&exchange.WriteError{Status: 500, Message: "Resources exhausted"}, split},
		{&exchange.WriteError{Status: 502}, again},
		{&exchange.WriteError{Status: 504}, split},
		{errors.New("connection reset"), again},
		{t.Context().Err(), again},
	} {
		if got := judge(c.err); c.err != nil && got != c.want {
			t.Errorf("%v: %d", c.err, got)
		}
	}
}

// TestSurvey counts without a change.
func TestSurvey(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	var long atomic.Bool
	f.hook = func(q string, w http.ResponseWriter) bool {
		if strings.HasPrefix(q, "SELECT count") && !long.Swap(true) {
			http.Error(w, "timeout", http.StatusGatewayTimeout)
			return true
		}
		return false
	}
	s := f.connect()
	c, err := s.Catalog(t.Context(), &exchange.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	found, _, err := New(s, to.client(), c, Options{}).Survey(t.Context())
	if want := []Found{{"d", "p", "m", 1, 40}, {"d", "p", "n", 1, 3}}; err != nil || !slices.Equal(found, want) {
		t.Errorf("%+v, %v", found, err)
	}
	if len(to.lines)+len(to.made) > 0 {
		t.Errorf("the target got %v %v", to.lines, to.made)
	}
}
