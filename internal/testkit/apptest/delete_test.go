package apptest

import (
	"fmt"
	"strings"
	"testing"
)

func TestDeleteByTheV2API(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", `CREATE DATABASE d; CREATE RETENTION POLICY r2 ON d DURATION INF REPLICATION 1`)
	fill := func() {
		for _, path := range []string{"/write?db=d&precision=s", "/write?db=d&rp=r2&precision=s"} {
			if status, body := s.Send(path, "m,h=a v=1 10\nm,h=b v=2 10\nm,h=a v=3 20\nn,h=a v=4 10"); status != 204 {
				t.Fatalf("%d %s", status, body)
			}
		}
	}
	// left returns the sums of m and n in both policies.
	left := func() string {
		var sums []string
		for _, from := range []string{"autogen.m", "autogen.n", "r2.m", "r2.n"} {
			_, rest, _ := strings.Cut(s.Query("d", "SELECT sum(v) FROM "+from), `"values":[[0,`)
			sum, _, _ := strings.Cut(rest, "]")
			sums = append(sums, sum)
		}
		return strings.Join(sums, " ")
	}
	f := func(bucket, predicate, want string) {
		t.Helper()
		fill()
		body := fmt.Sprintf(`{"start":"1970-01-01T00:00:10Z","stop":"1970-01-01T00:00:20Z","predicate":%q}`, predicate)
		if status, answer := s.Send("/api/v2/delete?bucket="+bucket, body); status != 200 || answer != "" {
			t.Fatalf("%d %s", status, answer)
		}
		if got := left(); got != want {
			t.Errorf("%s %s: %s is left, want %s", bucket, predicate, got, want)
		}
	}
	f("d/autogen", `_measurement="nosuch"`, "6 4 6 4")
	f("d/autogen", `_measurement="m" AND h="a"`, "5 4 6 4")
	f("d/r2", `h=a`, "6 4 5 ")
	f("d/autogen", `(_measurement=m) AND (h='b')`, "4 4 6 4")
	f("d", ``, "3  3 ")

	// Bounds beyond the legal times.
	between := func(start, stop, want string) {
		t.Helper()
		fill()
		s.Send("/write?db=d", "m v=100 -9223372036854775806\nm v=1000 9223372036854775806") // the first and the last legal time
		if status, answer := s.Send("/api/v2/delete?bucket=d/autogen", fmt.Sprintf(`{"start":%q,"stop":%q}`, start, stop)); status != 200 {
			t.Fatalf("%s to %s: %d %s", start, stop, status, answer)
		}
		if got := left(); got != want {
			t.Errorf("%s to %s: %s is left, want %s", start, stop, got, want)
		}
	}
	between("9000-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "1106 4 6 4")
	between("0001-01-01T00:00:00Z", "1000-01-01T00:00:00Z", "1106 4 6 4")
	between("9999-01-01T00:00:00Z", "0001-01-01T00:00:00Z", "1106 4 6 4")
	between("0001-01-01T00:00:00Z", "1677-09-21T00:12:43.145224194Z", "1106 4 6 4") // not the stop itself
	between("2262-04-11T23:47:16.854775806Z", "9999-01-01T00:00:00Z", "106 4 6 4")
	between("0001-01-01T00:00:00Z", "1970-01-01T00:00:00Z", "1006 4 6 4")
	between("0001-01-01T00:00:00Z", "9999-01-01T00:00:00Z", "  6 4")
}
