package httpapi_test

import (
	"context"
	"fmt"
	"testing"

	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/prom/engine"
	"tsdbd/query/show"
)

// fakeExplorer counts the same for every database, except for those it does not know.
type fakeExplorer struct{ asked []show.Exploration }

func (e *fakeExplorer) Explore(_ context.Context, x show.Exploration) (*show.Explored, error) {
	e.asked = append(e.asked, x)
	switch x.Database {
	case "gone":
		return nil, fmt.Errorf("%w: gone", meta.ErrDatabaseNotFound)
	case "full":
		return nil, fmt.Errorf("explore: %w", overloadedError{})
	}
	found := &show.Explored{
		Series: 5, Pairs: 4,
		Measurements: []show.MeasurementCount{{Name: "mem", Series: 2}, {Name: "cpu", Series: 3}},
		Values:       []show.ValueCount{{Key: "host", Value: "a", Series: 3}, {Key: "host", Value: "b", Series: 2}},
	}
	if x.Keys {
		found.Keys = []show.KeyCount{{Key: "host", Values: 2, Series: 5}}
	}
	return found, nil
}

type overloadedError struct{}

func (overloadedError) Error() string   { return "too many series are being counted" }
func (overloadedError) Temporary() bool { return true }

func TestStatusTSDB(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "db", Privilege: meta.ReadPrivilege})
	users.apply(t, meta.CreateDatabase{Name: "gone"})
	users.apply(t, meta.CreateDatabase{Name: "other"})
	explorer := &fakeExplorer{}
	opt.PromQL = engine.New(engine.Options{})
	opt.Explorer, opt.Writer, opt.Query = explorer, newFakeStore(), newFakeStore()
	h := httpapi.New(opt)
	defer h.Close()
	f := func(user, params string, status int, want string) {
		t.Helper()
		explorer.asked = nil
		a := serve(h, "GET", "/api/v1/status/tsdb?u="+user+"&p="+user+"pw"+params, nil)
		if got := a.Body.String(); a.Code != status || got != want {
			t.Errorf("%s %s:\n got %d %s\nwant %d %s", user, params, a.Code, got, status, want)
		}
	}
	f("ann", "&db=db", 200, `{"status":"success","data":{"totalSeries":5,"totalLabelValuePairs":4,"headStats":{"numSeries":5,"numLabelPairs":4,"chunkCount":0,"minTime":0,"maxTime":0},`+
		`"seriesCountByMetricName":[{"name":"cpu","value":3},{"name":"mem","value":2}],"seriesCountByLabelName":[{"name":"host","value":5}],`+
		`"seriesCountByFocusLabelValue":[],"seriesCountByLabelValuePair":[{"name":"host=a","value":3},{"name":"host=b","value":2}],`+
		`"labelValueCountByLabelName":[{"name":"host","value":2}],"memoryInBytesByLabelName":[]}}`)
	// All databases together; one is dropped in between.
	f("root", "&topN=1&focusLabel=host&match=cpu&date=1970-01-02", 200, `{"status":"success","data":{"totalSeries":10,"totalLabelValuePairs":8,"headStats":{"numSeries":10,"numLabelPairs":8,"chunkCount":0,"minTime":0,"maxTime":0},`+
		`"seriesCountByMetricName":[{"name":"cpu","value":6}],"seriesCountByLabelName":[{"name":"host","value":10}],`+
		`"seriesCountByFocusLabelValue":[{"name":"a","value":6}],"seriesCountByLabelValuePair":[{"name":"host=a","value":6}],`+
		`"labelValueCountByLabelName":[{"name":"host","value":4}],"memoryInBytesByLabelName":[]}}`)
	const day = 24 * 3600 * 1e9
	if x := explorer.asked[1]; len(explorer.asked) != 5 || x.Key != "host" || x.Measurement != "cpu" || x.Top != 1 || x.Range.Min != day || x.Range.Max != 2*day-1 {
		t.Errorf("asked %+v", explorer.asked)
	}
	f("ann", "", 403, `{"status":"error","errorType":"forbidden","error":"without db only an administrator may ask"}`)
	f("ann", "&db=other", 403, `{"status":"error","errorType":"forbidden","error":"\"ann\" user is not authorized to read from database \"other\""}`)
	f("root", "&db=gone", 404, `{"status":"error","errorType":"not_found","error":"database not found: gone"}`)
	f("root", "&db=full", 503, `{"status":"error","errorType":"unavailable","error":"explore: too many series are being counted"}`)
	f("root", "&topN=0", 400, `{"status":"error","errorType":"bad_data","error":"topN must be a number from 1 to 1000, not \"0\""}`)
	f("root", "&date=today", 400, `{"status":"error","errorType":"bad_data","error":"date must be a day such as 2024-02-29, not \"today\""}`)
}
