package apptest

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"
)

// routeRights is what a route answers to each of the people.
type routeRights struct {
	method, path, body                         string
	none, stranger, reader, writer, admin, off int
}

// routeMatrix says what each route answers to the people, by hand: to someone
// without a login, to a stranger, a reader and a writer of mine, to the
// administrator, and to everyone when logins are off.
var routeMatrix = []routeRights{
	{"GET", "/", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/ui/nosuch", "", 404, 404, 404, 404, 404, 404},
	{"HEAD", "/ui/nosuch", "", 404, 404, 404, 404, 404, 404},
	{"GET", "/ui/", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/ui", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/ui", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/graph?g0.expr=up", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/graph", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/vmui", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/vmui/", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/vmui/", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/vmui/", "", 405, 405, 405, 405, 405, 405},
	{"GET", "/api/queries?since=1h", "", 401, 200, 200, 200, 200, 200},
	{"HEAD", "/api/queries", "", 401, 200, 200, 200, 200, 200},
	{"GET", "/api/queries?since=1d", "", 401, 400, 400, 400, 400, 400},
	{"GET", "/api/rights", "", 401, 200, 200, 200, 200, 200},
	{"HEAD", "/api/rights", "", 401, 200, 200, 200, 200, 200},
	{"GET", "/api/figures", "", 401, 403, 403, 403, 200, 200},
	{"HEAD", "/api/figures", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/ping", "", 204, 204, 204, 204, 204, 204},
	{"HEAD", "/ping", "", 204, 204, 204, 204, 204, 204},
	{"GET", "/status", "", 204, 204, 204, 204, 204, 204},
	{"HEAD", "/status", "", 204, 204, 204, 204, 204, 204},
	{"GET", "/ready", "", 200, 200, 200, 200, 200, 200},
	{"OPTIONS", "/health", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/health", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/health", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/-/healthy", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/-/healthy", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/-/ready", "", 200, 200, 200, 200, 200, 200},
	{"HEAD", "/-/ready", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/prometheus/canary/-/healthy", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/prometheus/canary/autogen/-/ready", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/prometheus/-/healthy", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/prometheus/canary/autogen/x/-/ready", "", 404, 404, 404, 404, 404, 404},
	{"GET", "/metrics", "", 401, 200, 200, 200, 200, 200},
	{"GET", "/query?q=SHOW+DATABASES", "", 401, 200, 200, 200, 200, 200},
	{"POST", "/query?q=SHOW+DATABASES", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/query", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/write?db=mine", "m v=1", 401, 403, 403, 204, 204, 204},
	{"POST", "/write?db=canary", "m v=1", 401, 403, 403, 403, 204, 204},
	{"POST", "/write?db=nosuch", "m v=1", 401, 403, 403, 403, 404, 404},
	{"POST", "/write", "m v=1", 401, 400, 400, 400, 400, 400},
	{"OPTIONS", "/write", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/api/v2/write?bucket=mine", "m v=1", 401, 403, 403, 204, 204, 204},
	{"POST", "/api/v2/write?bucket=mine/autogen", "m v=1", 401, 403, 403, 204, 204, 204},
	{"POST", "/api/v2/write?bucket=canary/autogen", "m v=1", 401, 403, 403, 403, 204, 204},
	{"OPTIONS", "/api/v2/write", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/api/v2/delete?bucket=mine", deleteNothing, 401, 403, 403, 200, 200, 200},
	{"POST", "/api/v2/delete?bucket=canary/autogen", deleteNothing, 401, 403, 403, 403, 200, 200},
	{"POST", "/api/v2/delete?bucket=canary/nosuch", deleteNothing, 401, 403, 403, 403, 404, 404},
	{"POST", "/api/v2/query", "from()", 401, 403, 403, 403, 403, 403},
	{"OPTIONS", "/api/v2/query", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v2/orgs?org=o", "", 401, 200, 200, 200, 200, 200},
	{"GET", "/api/boards?db=mine", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/api/boards?db=canary", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/api/boards?db=nosuch", "", 401, 403, 403, 403, 404, 404},
	{"GET", "/api/boards", "", 401, 400, 400, 400, 400, 400},
	{"POST", "/api/boards?db=mine", `{"name":"Host","board":{"version":1,"panels":[]}}`, 401, 403, 403, 201, 201, 201},
	{"POST", "/api/boards?db=canary", `{"name":"Host","board":{"version":1,"panels":[]}}`, 401, 403, 403, 403, 201, 201},
	{"GET", "/api/boards/999?db=mine", "", 401, 403, 404, 403, 404, 404},
	{"PUT", "/api/boards/999?db=mine", `{"name":"Host","edition":1,"board":{"version":1,"panels":[]}}`, 401, 403, 403, 404, 404, 404},
	{"DELETE", "/api/boards/999?db=mine&edition=1", "", 401, 403, 403, 404, 404, 404},
	{"OPTIONS", "/api/boards", "", 200, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/boards/999", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v2/buckets", "", 401, 200, 200, 200, 200, 200},
	{"POST", "/api/v2/buckets", `{"name":"mine/autogen2"}`, 401, 403, 403, 403, 201, 201},
	{"GET", "/api/v2/buckets/mine%2Fautogen", "", 401, 404, 200, 200, 200, 200},
	{"GET", "/api/v2/buckets/canary%2Fautogen", "", 401, 404, 404, 404, 200, 200},
	{"PATCH", "/api/v2/buckets/mine%2Fautogen", `{}`, 401, 403, 403, 403, 200, 200},
	{"DELETE", "/api/v2/buckets/mine%2Fnosuch", "", 401, 403, 403, 403, 404, 404},
	{"GET", "/api/v2/buckets/mine%2Fautogen/labels", "", 401, 405, 405, 405, 405, 405},
	{"POST", "/api/v1/prom/write?db=mine", "", 401, 403, 403, 400, 400, 400}, // not snappy
	{"POST", "/api/v1/prom/write?db=canary", "", 401, 403, 403, 403, 400, 400},
	{"POST", "/api/v1/write?db=mine", "", 401, 403, 403, 400, 400, 400},
	{"POST", "/api/v1/write?db=canary", "", 401, 403, 403, 403, 400, 400},
	{"POST", "/prometheus/canary/api/v1/write", "", 401, 403, 403, 403, 400, 400},
	{"POST", "/api/v1/otlp/v1/metrics?db=mine", "", 401, 403, 403, 200, 200, 200},
	{"POST", "/v1/metrics?db=mine", "", 401, 403, 403, 200, 200, 200},
	{"POST", "/opentelemetry/v1/metrics?db=canary", "", 401, 403, 403, 403, 200, 200},
	{"POST", "/api/v1/prom/read?db=mine", "", 401, 403, 400, 403, 400, 400},
	{"POST", "/api/v1/prom/read?db=canary", "", 401, 403, 403, 403, 400, 400},
	{"POST", "/api/v1/otlp/v1/logs", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/v1/logs", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/opentelemetry/v1/logs", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/api/v1/otlp/v1/traces", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/v1/traces", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/opentelemetry/v1/traces", "", 401, 404, 404, 404, 404, 404},
	{"GET", "/api/v1/targets/metadata", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/targets/metadata", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/targets/relabel_steps", "", 401, 400, 400, 400, 400, 400},
	{"OPTIONS", "/api/v1/targets/relabel_steps", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/scrape_pools", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/scrape_pools", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/scrape_pools/config", "", 401, 400, 400, 400, 400, 400},
	{"OPTIONS", "/api/v1/scrape_pools/config", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/alertmanagers", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/alertmanagers", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/notifications", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/notifications", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/walreplay", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/walreplay", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/api/v1/admin/tsdb/delete_series?db=mine&match[]=nosuch", "", 401, 403, 403, 204, 204, 204},
	{"PUT", "/api/v1/admin/tsdb/delete_series?db=canary&match[]=nosuch", "", 401, 403, 403, 403, 204, 204},
	{"PUT", "/prometheus/canary/api/v1/admin/tsdb/delete_series?match[]=nosuch", "", 401, 403, 403, 403, 204, 204},
	{"POST", "/api/v1/admin/tsdb/clean_tombstones?db=mine", "", 401, 403, 403, 204, 204, 204},
	{"PUT", "/api/v1/admin/tsdb/clean_tombstones?db=canary", "", 401, 403, 403, 403, 204, 204},
	{"GET", "/api/v1/", "", 401, 404, 404, 404, 404, 404},
	{"POST", "/api/v1/admin/tsdb/snapshot", "", 401, 404, 404, 404, 404, 404},
	{"OPTIONS", "/api/v1/features", "", 200, 200, 200, 200, 200, 200},
	{"POST", "/api/v1/import?db=mine&extra_label=x", "", 401, 400, 400, 400, 400, 400},
	{"POST", "/prometheus/canary/api/v1/import", "", 401, 403, 403, 403, 204, 204},
	{"POST", "/api/v1/import/prometheus?db=mine&extra_label=x", "", 401, 400, 400, 400, 400, 400},
	{"POST", "/api/v1/import/prometheus?db=mine", "mine_text 1", 401, 403, 403, 204, 204, 204},
	{"PUT", "/api/v1/import/prometheus?db=canary", "x 1", 401, 403, 403, 403, 204, 204},
	{"POST", "/api/v1/import/prometheus/metrics/job/a?db=mine", "mine_text 1", 401, 403, 403, 204, 204, 204},
	{"PUT", "/api/v1/import/prometheus/metrics/job/a?db=mine", "mine_text 1", 401, 403, 403, 204, 204, 204},
	{"PUT", "/prometheus/canary/api/v1/import/prometheus/metrics/job/a", "x 1", 401, 403, 403, 403, 204, 204},
	{"GET", "/api/v1/export?db=mine&match[]=mine_cpu", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/export?db=mine", "", 401, 403, 400, 403, 400, 400},
	{"POST", "/prometheus/canary/api/v1/export", "", 401, 403, 403, 403, 400, 400},
	{"POST", "/api/v1/read?db=mine", "", 401, 403, 400, 403, 400, 400},
	{"POST", "/prometheus/canary/api/v1/read", "", 401, 403, 403, 403, 400, 400},
	{"GET", "/api/v1/query?db=mine&query=1", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/query?db=mine&query=1", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/api/v1/query?query=1", "", 401, 403, 403, 403, 200, 200}, // the default database
	{"GET", "/api/v1/query?db=canary&query=1", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/api/v1/query?db=nosuch&query=x", "", 401, 403, 403, 403, 404, 404},
	{"GET", "/prometheus/mine/api/v1/query?query=1", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/prometheus/canary/api/v1/query?query=1&db=mine", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/prometheus/canary/autogen/api/v1/labels?db=mine", "", 401, 403, 403, 403, 200, 200},
	{"OPTIONS", "/api/v1/query", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/query_range?db=mine&query=1&start=0&end=1&step=1", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/query_range?db=mine&query=1&start=0&end=1&step=1", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/query_range", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/query_exemplars?db=mine&query=x", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/query_exemplars?db=mine&query=x", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/query_exemplars", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/series?db=mine&match[]=x", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/series?db=mine&match[]=x", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/series", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/labels?db=mine&", "", 401, 403, 200, 403, 200, 200},
	{"POST", "/api/v1/labels?db=mine&", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/labels", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/label/host/values?db=mine&", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/label/host/values", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/metadata?db=mine", "", 401, 403, 200, 403, 200, 200},
	{"OPTIONS", "/api/v1/metadata", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/federate?db=mine&match[]=mine_cpu", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/federate?match[]=x", "", 401, 403, 403, 403, 200, 200}, // the default database
	{"GET", "/prometheus/canary/federate?match[]=x", "", 401, 403, 403, 403, 200, 200},
	{"OPTIONS", "/federate", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/format_query?query=x", "", 401, 200, 200, 200, 200, 200},
	{"POST", "/api/v1/format_query?query=x", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/format_query", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/parse_query?query=x", "", 401, 200, 200, 200, 200, 200},
	{"POST", "/api/v1/parse_query?query=x", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/parse_query", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/rules?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/rules", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/alerts?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/alerts", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/targets?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/targets", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/buildinfo?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/buildinfo", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/runtimeinfo?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/runtimeinfo", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/config?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/config", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/flags?", "", 401, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/flags", "", 200, 200, 200, 200, 200, 200},
	{"OPTIONS", "/api/v1/status/tsdb", "", 200, 200, 200, 200, 200, 200},
	{"GET", "/api/v1/status/tsdb?db=mine", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/api/v1/status/tsdb?db=canary", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/api/v1/status/tsdb?db=nosuch", "", 401, 403, 403, 403, 404, 404},
	{"GET", "/api/v1/status/tsdb?db=mine&focusLabel=host&match[]=mine_cpu&topN=3", "", 401, 403, 200, 403, 200, 200},
	{"GET", "/api/v1/status/tsdb", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/vars", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/requests?seconds=0", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/cmdline", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/all", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/all?cpu=x", "", 401, 403, 403, 403, 400, 400},
	{"GET", "/debug/pprof", "", 401, 403, 403, 403, 200, 200}, // moved
	{"GET", "/debug/pprof/heap", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/profile?seconds=1", "", 401, 403, 403, 403, 200, 200},
	{"POST", "/debug/pprof/symbol", "0x1", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/symbol", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/debug/pprof/trace?seconds=0", "", 401, 403, 403, 403, 200, 200},
	{"GET", "/api/tsdbd/nosuch", "", 401, 403, 403, 403, 404, 404},
	{"GET", "/nosuch", "", 404, 404, 404, 404, 404, 404},
	{"PUT", "/query", "", 405, 405, 405, 405, 405, 405},
}

const deleteNothing = `{"start":"2001-01-01T00:00:00Z","stop":"2001-01-01T00:00:01Z"}`

func TestRouteMatrix(t *testing.T) {
	t.Parallel()
	for _, off := range []bool{false, true} {
		s := authServer(t, off)
		tried := map[string]bool{}
		for _, r := range routeMatrix {
			want := map[byte]int{'n': r.none, 'S': r.stranger, 'R': r.reader, 'W': r.writer, 'A': r.admin, 'x': 401}
			if class := fmt.Sprint(r.method, r.none, r.stranger, r.reader, r.writer, r.admin); r.none != 401 || tried[class] {
				delete(want, 'x') // logins are not looked at, or this has been tried: a wrong password costs 60 ms
			} else {
				tried[class] = true
			}
			for who, status := range want {
				if off {
					status = r.off
					if who != 'n' && who != 'x' {
						continue
					}
				}
				if strings.HasSuffix(r.path, "seconds=1") && status == 200 && who != 'A' {
					continue // it takes a second
				}
				got, body := s.as(who, r.method, r.path, nil, r.body)
				if who == 'x' && got == 503 && !off {
					continue // refused as well: too many at once
				}
				if off && status == 201 && got == 422 {
					continue // the one before made the bucket
				}
				if got != status {
					t.Errorf("%s %s as %q (logins off: %v): %d %s, want %d", r.method, r.path, people[who][0], off, got, body, status)
				}
				if who != 'A' && !off && !strings.Contains(r.path, "canary") && strings.Contains(body, "canary") {
					t.Errorf("%s %s as %q names another database: %s", r.method, r.path, people[who][0], body)
				}
			}
		}
		s.Stop()
	}
}

func TestPprofIsOffByDefault(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for _, path := range []string{"/debug/pprof/", "/debug/pprof/heap", "/debug/pprof/profile", "/debug/pprof/cmdline"} {
		if status, _ := s.as('n', "GET", path, nil); status != 404 {
			t.Errorf("%s: %d", path, status)
		}
	}
}

// TestPasswordsStaySecret looks for passwords wherever something is told.
func TestPasswordsStaySecret(t *testing.T) {
	t.Parallel()
	s := authServer(t, false, "TSDBD_HTTP_ACCESS_LOG=true", "TSDBD_QUERY_LOG_QUERIES_AFTER=1ns",
		"TSDBD_HTTP_SHARED_SECRET=sesame-shared-secret-of-the-server", "TSDBD_LOG_LEVEL=debug")
	told := ""
	for _, spelling := range []string{
		`CREATE USER eve WITH PASSWORD 'sesame'`, `create user "eve" with password 'sesame' with all privileges`,
		"CREATE\nUSER eve\tWITH  PASSWORD\n'sesame'", `CREATE USER eve WITH PASSWORD "sesame"`, `CREATE USER eve WITH PASSWORD sesame`,
		`CREATE USER eve WITH PASSWORD 'sesame`, `CREATE USER eve WITH PASSWORD 'x\'sesame'`, `CREATE USER eve WITH PASSWORD /* c */ 'sesame'`,
		`CREATE USER eve WITH PASSWORD -- c` + "\n" + `'sesame'`, `SET PASSWORD FOR eve = 'sesame'`, `set password for "e v" = 'sesame'`,
		`SET PASSWORD FOR eve='sesame'`, `SET PASSWORD FOR eve 'sesame'`, `SET PASSWORD FOR eve = sesame`, `SET PASSWORD FOR nobody = 'sesame'`,
		`SHOW DATABASES; CREATE USER eve WITH PASSWORD 'sesame'; SHOW QUERIES`, `CREATE USER reader WITH PASSWORD 'sesame'`,
		`SET PASSWORD FOR eve = 'sesame'; SHOW USERS`, `CREATE USER eve WITH PASSWORD $p`, `EXPLAIN CREATE USER eve WITH PASSWORD 'sesame'`,
	} {
		for _, who := range []byte("AR") {
			for _, method := range []string{"GET", "POST"} {
				_, body := s.as(who, method, "/query", url.Values{"q": {spelling}, "params": {`{"p":"sesame"}`}})
				// A text that does not parse is answered with the place where it
				// does not: who sent it knows it.
				if !strings.Contains(body, "error parsing query") {
					told += body
				}
			}
			_, _ = s.as(who, "POST", "/query?async=true&"+url.Values{"q": {spelling}}.Encode(), nil)
		}
	}
	_, _ = s.as('n', "GET", "/query?q=SHOW+DATABASES&u=admin&p=sesame", nil)
	_, _ = s.as('n', "POST", "/write?db=mine&u=admin&p=sesame", nil, "m v=1")
	_, _ = s.as('n', "OPTIONS", "/query?u=admin&p=sesame", nil)
	_, _ = s.as('n', "GET", "/query?q=SHOW+DATABASES;u=admin;p=sesame", nil)
	_, _ = s.as('A', "POST", "/query", url.Values{"q": {`CREATE SUBSCRIPTION s ON mine.autogen DESTINATIONS ALL 'http://eve:sesame@127.0.0.1:1'`}})
	_, _ = s.as('A', "POST", "/query?async=true&"+url.Values{"q": {`CREATE SUBSCRIPTION s ON mine.autogen DESTINATIONS ALL 'http://eve:sesame@127.0.0.1:1'`}}.Encode(), nil)
	for _, login := range []string{"Token admin:sesame", "Bearer sesame", "Bearer eyJhbGciOiJIUzI1NiJ9.e30.sesame", "Basic " + base64.StdEncoding.EncodeToString([]byte("admin:sesame")), "sesame", "Token sesame"} {
		for _, path := range []string{"/write?db=mine", "/query?q=SHOW+DATABASES"} {
			req, err := http.NewRequest("POST", s.URL+path, strings.NewReader("m v=1"))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", login)
			resp, err := s.http.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			answer, _ := io.ReadAll(resp.Body)
			resp.Body.Close()
			told += string(answer) + fmt.Sprint(resp.Header)
		}
	}
	_, _ = s.as('A', "POST", "/write?db=mine", nil, "m v=2") // to the subscriber, who is not there
	for _, path := range []string{"/debug/vars", "/metrics", "/query?q=SHOW+USERS", "/query?q=SHOW+QUERIES", "/query?q=SHOW+DIAGNOSTICS", "/query?q=SHOW+STATS", "/api/queries"} {
		_, body := s.as('A', "GET", path, nil)
		told += body
	}
	s.Stop()
	told += s.Log()
	if i := strings.Index(told, "sesame"); i >= 0 {
		t.Errorf("a password is told: ...%s...", told[max(0, i-300):min(len(told), i+100)])
	}
	if !strings.Contains(s.Log(), "slow query") || !strings.Contains(s.Log(), "REDACTED") {
		t.Error("the logs were not written")
	}
	if strings.Contains(told, "$2a$") {
		t.Error("a hash is told")
	}
}

// The files hold hashes: nobody else may read them.
func TestFilesAreTheOwners(t *testing.T) {
	t.Parallel()
	dir := t.TempDir() + "/data"
	s := StartOn(t, dir)
	s.Stop()
	for _, name := range []string{dir, dir + "/meta"} {
		info, err := os.Stat(name)
		if err != nil {
			continue
		}
		if info.Mode().Perm()&0o077 != 0 {
			t.Errorf("%s: %v", name, info.Mode())
		}
	}
}
