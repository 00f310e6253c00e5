package apptest

import (
	"encoding/json"
	"testing"
)

// TestDebugVars reads /debug/vars as Telegraf's inputs.influxdb does: each
// member with a name and values is a point.
func TestDebugVars(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.as('n', "POST", "/query?q=CREATE+DATABASE+d", nil)
	if status, body := s.Send("/write?db=d", "m,host=a v=1\nm,host=b v=1\nn v=1"); status != 204 {
		t.Fatal(status, body)
	}
	s.Send("/write?db=d", "bad")
	status, body := s.as('n', "GET", "/debug/vars", nil)
	if status != 200 {
		t.Fatal(status, body)
	}
	var vars map[string]json.RawMessage
	if err := json.Unmarshal([]byte(body), &vars); err != nil {
		t.Fatal(err)
	}
	point := func(key, name string, tags map[string]string, values map[string]float64) {
		t.Helper()
		var p struct {
			Name   string
			Tags   map[string]string
			Values map[string]any
		}
		if err := json.Unmarshal(vars[key], &p); err != nil {
			t.Errorf("%s: %v", key, err)
			return
		}
		if p.Name != name || p.Tags == nil {
			t.Errorf("%s: %+v", key, p)
		}
		for k, v := range tags {
			if p.Tags[k] != v {
				t.Errorf("%s: tag %s is %q, want %q", key, k, p.Tags[k], v)
			}
		}
		for k, v := range values {
			if got, ok := p.Values[k].(float64); !ok || got != v {
				t.Errorf("%s: %s is %v, want %v", key, k, p.Values[k], v)
			}
		}
	}
	point("database:d", "database", map[string]string{"database": "d"}, map[string]float64{"numSeries": 3, "numMeasurements": 2})
	point("httpd:"+s.addr, "httpd", map[string]string{"bind": s.addr},
		map[string]float64{"writeReq": 2, "queryReq": 1, "pointsWrittenOK": 3, "valuesWrittenOK": 3, "clientError": 1, "serverError": 0, "reqActive": 1, "writeReqActive": 0})
	point("write", "write", nil, map[string]float64{"req": 2, "pointReq": 3, "pointReqLocal": 3, "writeOk": 3, "writeDrop": 0, "writeTimeout": 0, "subWriteOk": 0, "subWriteDrop": 0})
	point("shard:d:autogen:1", "shard", map[string]string{"database": "d", "retentionPolicy": "autogen"}, map[string]float64{"writeReq": 1, "writeReqOk": 1, "writePointsOk": 3})
	point("tsm1_cache:d:autogen:1", "tsm1_cache", map[string]string{"id": "1"}, map[string]float64{"writeOk": 1})
	point("queryExecutor", "queryExecutor", nil, map[string]float64{"queriesFinished": 1})
	point("runtime", "runtime", nil, nil)
	var crypto struct {
		FIPS, EnsureFIPS             *bool
		Implementation, PasswordHash string
	}
	if err := json.Unmarshal(vars["crypto"], &crypto); err != nil || crypto.FIPS == nil || crypto.EnsureFIPS == nil || crypto.PasswordHash != "bcrypt" {
		t.Errorf("crypto: %s %v", vars["crypto"], err)
	}
}
