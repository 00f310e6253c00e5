package httpapi_test

import (
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/httpapi"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/admission"
)

// TestPrometheusPartial: requests about times that have lost samples fail with the reason,
// and with partial=true answers say what they lack.
func TestPrometheusPartial(t *testing.T) {
	h, s := promServer(t, httpapi.Options{Limits: httpapi.Limits{PrometheusDatabase: "mydb"}}, admission.Limits{})
	s.Write(t, "mydb", "autogen", "s", "up,__name__=up,job=a value=1 100")
	s.Lost = []scan.Loss{{Shard: 7, Range: model.TimeRange{Min: 0, Max: 200e9}, Path: "db-1/shard-7/quarantine/1.tsm"}}
	const lost = "points are missing in shard 7, 1970-01-01T00:00:00Z to 1970-01-01T00:03:20Z: damaged file set aside as db-1/shard-7/quarantine/1.tsm"
	all := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), 200e3)
	all = append(all, member(3, append(member(2, []byte("job")), member(3, []byte("a"))...))...)
	message := string(snappy.Encode(nil, member(1, all)))
	for _, path := range []string{
		"/api/v1/query?query=up&time=110",
		"/api/v1/query?query=count_over_time(up[5m:1s])&time=300",
		"/api/v1/query?query=up+offset+1h&time=3710",
		"/api/v1/query_range?query=sum(rate(up[1m]))&start=0&end=150&step=10",
		"/api/v1/query_range?query=sum(up)%2Bvector(1)&start=0&end=5000000&step=1000",
		"/api/v1/series?match[]=up&start=0&end=150",
		"/api/v1/labels?start=0&end=150",
		"/api/v1/label/job/values?start=0&end=150",
		"/api/v1/metadata?metric=up",
		"/api/v1/export?match[]=up&start=0&end=150",
		"/api/v1/read?db=mydb",
	} {
		ask := func(more string) *httptest.ResponseRecorder {
			if strings.HasPrefix(path, "/api/v1/read") {
				return serveRequest(h, httptest.NewRequest("POST", path+more, strings.NewReader(message)))
			}
			return serveRequest(h, httptest.NewRequest("GET", path+more, nil))
		}
		if w := ask(""); w.Code != 500 || !strings.Contains(w.Body.String(), lost+". For an answer from what is left, add partial=true") {
			t.Errorf("%s: %d %s", path, w.Code, w.Body)
		}
		if w := ask("&partial=true"); w.Code != 200 || !strings.Contains(w.Body.String(), lost) && w.Header().Get("X-Influxdb-Warning") != lost {
			t.Errorf("%s, partial: %d %v %s", path, w.Code, w.Header(), w.Body)
		}
		if w := ask("&partial=1"); w.Code != 400 {
			t.Errorf("%s, partial=1: %d", path, w.Code)
		}
	}
	if w := serveRequest(h, httptest.NewRequest("GET", "/api/v1/query?time=100000&query=up", nil)); w.Code != 200 || strings.Contains(w.Body.String(), "missing") {
		t.Errorf("after the damage: %d %s", w.Code, w.Body)
	}
	if n := s.Views(); n != 0 {
		t.Errorf("%d views are left", n)
	}
}
