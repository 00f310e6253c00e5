package apptest

import (
	"encoding/json"
	"net/url"
	"strings"
	"testing"
)

// TestStatusTSDB asks for cardinality in the form of Prometheus.
func TestStatusTSDB(t *testing.T) {
	t.Parallel()
	s := Start(t)
	if _, body := s.as('n', "POST", "/query", url.Values{"q": {"CREATE DATABASE d; CREATE DATABASE e"}}); strings.Contains(body, "error") {
		t.Fatal(body)
	}
	for db, lines := range map[string]string{
		"d": "cpu,host=a,zone=x f=1 0\ncpu,host=b,zone=x f=1 0\nmem,host=a f=1 864000000000000",
		"e": "cpu,host=a,zone=y f=1 0",
	} {
		if status, body := s.as('n', "POST", "/write?db="+db, nil, lines); status != 204 {
			t.Fatal(body)
		}
	}
	for _, c := range []struct {
		params string
		status int
		want   string
	}{
		{"?db=d", 200, `{"status":"success","data":{"totalSeries":3,"totalLabelValuePairs":3,"headStats":{"numSeries":3,"numLabelPairs":3,"chunkCount":0,"minTime":0,"maxTime":0},` +
			`"seriesCountByMetricName":[{"name":"cpu","value":2},{"name":"mem","value":1}],` +
			`"seriesCountByLabelName":[{"name":"host","value":3},{"name":"zone","value":2}],"seriesCountByFocusLabelValue":[],` +
			`"seriesCountByLabelValuePair":[{"name":"host=a","value":2},{"name":"zone=x","value":2},{"name":"host=b","value":1}],` +
			`"labelValueCountByLabelName":[{"name":"host","value":2},{"name":"zone","value":1}],"memoryInBytesByLabelName":[]}}`},
		{"?db=d&match[]=cpu&topN=1&focusLabel=zone", 200, `{"status":"success","data":{"totalSeries":2,"totalLabelValuePairs":3,"headStats":{"numSeries":2,"numLabelPairs":3,"chunkCount":0,"minTime":0,"maxTime":0},` +
			`"seriesCountByMetricName":[{"name":"cpu","value":2}],"seriesCountByLabelName":[{"name":"host","value":2}],` +
			`"seriesCountByFocusLabelValue":[{"name":"x","value":2}],"seriesCountByLabelValuePair":[{"name":"zone=x","value":2}],` +
			`"labelValueCountByLabelName":[{"name":"host","value":2}],"memoryInBytesByLabelName":[]}}`},
		{"?db=d&date=1970-01-11&focusLabel=host", 200, `{"status":"success","data":{"totalSeries":1,"totalLabelValuePairs":1,"headStats":{"numSeries":1,"numLabelPairs":1,"chunkCount":0,"minTime":0,"maxTime":0},` +
			`"seriesCountByMetricName":[{"name":"mem","value":1}],"seriesCountByLabelName":[{"name":"host","value":1}],` +
			`"seriesCountByFocusLabelValue":[{"name":"a","value":1}],"seriesCountByLabelValuePair":[{"name":"host=a","value":1}],` +
			`"labelValueCountByLabelName":[{"name":"host","value":1}],"memoryInBytesByLabelName":[]}}`},
		{"?topN=2", 200, `{"status":"success","data":{"totalSeries":4,"totalLabelValuePairs":5,"headStats":{"numSeries":4,"numLabelPairs":5,"chunkCount":0,"minTime":0,"maxTime":0},` +
			`"seriesCountByMetricName":[{"name":"cpu","value":3},{"name":"mem","value":1}],` +
			`"seriesCountByLabelName":[{"name":"host","value":4},{"name":"zone","value":3}],"seriesCountByFocusLabelValue":[],` +
			`"seriesCountByLabelValuePair":[{"name":"host=a","value":3},{"name":"zone=x","value":2}],` +
			`"labelValueCountByLabelName":[{"name":"host","value":3},{"name":"zone","value":2}],"memoryInBytesByLabelName":[]}}`},
		{"?db=nosuch", 404, `{"status":"error","errorType":"not_found","error":"database not found: nosuch"}`},
		{"?db=d&topN=0", 400, `{"status":"error","errorType":"bad_data","error":"topN must be a number from 1 to 1000, not \"0\""}`},
		{"?db=d&topN=x", 400, `{"status":"error","errorType":"bad_data","error":"topN must be a number from 1 to 1000, not \"x\""}`},
		{"?db=d&date=today", 400, `{"status":"error","errorType":"bad_data","error":"date must be a day such as 2024-02-29, not \"today\""}`},
	} {
		status, body := s.as('n', "GET", "/api/v1/status/tsdb"+c.params, nil)
		var got any
		if err := json.Unmarshal([]byte(body), &got); err != nil || status != c.status || strings.TrimSpace(body) != c.want {
			t.Errorf("%s: %d %s\nwant %d %s", c.params, status, body, c.status, c.want)
		}
	}
}
