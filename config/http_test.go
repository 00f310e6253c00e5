package config

import (
	"strings"
	"testing"
)

func TestStatusFilter(t *testing.T) {
	f := func(want string, filters ...string) {
		t.Helper()
		match, err := (&HTTP{AccessLogStatusFilters: filters}).StatusFilter()
		if err != nil {
			if want == "" || !strings.Contains(err.Error(), want) {
				t.Errorf("%q: %v, want %s", filters, err, want)
			}
			return
		}
		got := ""
		for _, status := range []int{200, 204, 400, 404, 415, 503} {
			if match == nil || match(status) {
				got += "y"
			} else {
				got += "n"
			}
		}
		if got != want {
			t.Errorf("%q: %s, want %s", filters, got, want)
		}
	}
	f("yyyyyy")
	f("nnyyyn", "4xx")
	f("nnyynn", "40X")
	f("nynnny", "204", "5xx")
	for _, bad := range []string{"", "4", "4xxx", "xxx", "600", "4y0"} {
		f("no status", bad)
	}
}

func TestHeaderSettings(t *testing.T) {
	c, err := loadConfig(Source{}, []string{"TSDBD_HTTP_HEADERS=X-A: b: c;X-D:e", "TSDBD_HTTP_ACCESS_LOG_STATUS_FILTERS=4xx;5xx"})
	if err != nil || c.HTTP.Headers["X-A"] != "b: c" || c.HTTP.Headers["X-D"] != "e" || len(c.HTTP.AccessLogStatusFilters) != 2 {
		t.Errorf("%+v %v", c, err)
	}
	for _, bad := range []string{"TSDBD_HTTP_HEADERS=x", "TSDBD_HTTP_HEADERS=a b: c", "TSDBD_HTTP_HEADERS=: c", "TSDBD_HTTP_HEADERS=a: b\rc", "TSDBD_HTTP_ACCESS_LOG_STATUS_FILTERS=all"} {
		if _, err := loadConfig(Source{}, []string{bad}); err == nil {
			t.Errorf("%q passes", bad)
		}
	}
}
