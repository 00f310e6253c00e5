package apptest

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"testing"
)

// TestCardinalityLimitsOverHTTP: the words and statuses by which clients decide
// not to send a batch again, over all routes that write.
func TestCardinalityLimitsOverHTTP(t *testing.T) {
	t.Setenv("TSDBD_DATA_MAX_SERIES_PER_DATABASE", "4")
	t.Setenv("TSDBD_DATA_MAX_VALUES_PER_TAG", "3")
	t.Setenv("TSDBD_DATA_MAX_FIELDS_PER_MEASUREMENT", "5")
	dir := t.TempDir()
	s := StartOn(t, dir)
	if status, body := s.as('n', "POST", "/query", url.Values{"q": {"CREATE DATABASE d"}}); status != 200 {
		t.Fatal(body)
	}
	where := " for database: d for retention policy: autogen"
	values := func(value string) string {
		return fmt.Sprintf(`partial write: max-values-per-tag limit exceeded (3/3): measurement="m" tag="h" value=%q dropped=1`, value) + where
	}
	full := "partial write: max-series-per-database limit exceeded: (4) dropped=1" + where
	write := func(path, lines string, status int, want string) {
		t.Helper()
		if want != "" {
			text := strings.TrimSpace(jsonText(t, want))
			want = fmt.Sprintf("{\"error\":%s}\n", text)
			if strings.HasPrefix(path, "/api/v2/") {
				want = fmt.Sprintf("{\"code\":\"invalid\",\"message\":%s,\"error\":%[1]s}\n", text)
			}
		}
		if got, body := s.as('n', "POST", path, nil, lines); got != status || body != want {
			t.Errorf("%s %q: %d %s, want %d %s", path, lines, got, body, status, want)
		}
	}
	v1, v2 := "/write?db=d", "/api/v2/write?bucket=d"
	write(v1, "m,h=a f=1 1\nm,h=b f=1 1\nm,h=c f=1 1", 204, "")
	write(v1, "m,h=d f=1 1\nm,h=a f=2 2", 400, values("d"))
	write(v2, "m,h=e f=1 1", 400, values("e"))
	write(v1, "m,x=1 f=1 1", 204, "")
	write(v1, "m,x=1 f=2,a=1,b=1,c=1,d=1 2\nm,x=1 e=1 1\nm,x=1 f=3 3", 400, `partial write: max-fields-per-measurement limit exceeded (5/5): measurement="m" dropped=1`+where)
	write(v1, "m,x=2 f=1 1\nm,h=a f=3 3", 400, full)
	write(v2, "other f=1 1", 400, full)
	s.Stop()
	if strings.Count(s.Log(), "a limit of cardinality is reached") != 1 {
		t.Errorf("the log: %s", s.Log())
	}
	s = StartOn(t, dir)
	write(v1, "m,x=2 f=1 1", 400, full)
	write(v1, "m,h=a f=4 4", 204, "")
	if _, body := s.as('n', "GET", "/query?db=d&epoch=ns&q="+url.QueryEscape("SELECT f FROM m WHERE h='a'; SHOW SERIES EXACT CARDINALITY"), nil); !strings.Contains(body, `[[1,1],[2,2],[3,3],[4,4]]`) || !strings.Contains(body, `[[4]]`) {
		t.Errorf("stored: %s", body)
	}
	if _, body := s.as('n', "GET", "/metrics", nil); !strings.Contains(body, "\ntsdbd_store_points_over_limit_total 1\n") {
		t.Error("not counted")
	}
	_, _ = s.as('n', "POST", "/query?db=d", url.Values{"q": {"DROP SERIES WHERE h = 'b'"}})
	write(v1, "m,h=e f=1 1", 204, "")
}

func jsonText(t *testing.T, text string) string {
	t.Helper()
	b, err := json.Marshal(text)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}
