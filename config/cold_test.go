package config

import (
	"strings"
	"testing"
)

// TestCold has settings of the cold store that cannot be.
func TestCold(t *testing.T) {
	f := func(want string, set ...string) {
		t.Helper()
		c, _, err := Source{}.Load(set)
		if want == "" {
			if err != nil {
				t.Errorf("%q: %v", set, err)
			} else if p, err := c.Cold.Place(); err != nil || p.Bucket != "b" {
				t.Errorf("%q: %+v, %v", set, p, err)
			}
			return
		}
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %s", set, err, want)
		}
	}
	url := "TSDBD_COLD_URL=s3://b/p"
	f("", url, "TSDBD_COLD_AFTER=7d", "TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b")
	f("cold.after needs cold.url", "TSDBD_COLD_AFTER=7d")
	f("cold.url: objects cannot be in gs://b", "TSDBD_COLD_URL=gs://b")
	f("belong together", url, "TSDBD_COLD_ACCESS_KEY=a")
	f("cold.cache-size", url, "TSDBD_COLD_CACHE_SIZE=1MiB")
	f("cold.timeout", url, "TSDBD_COLD_TIMEOUT=1ms")
	f("cold.grace", url, "TSDBD_COLD_GRACE=1s")
}
