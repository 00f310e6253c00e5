//go:build linux

package clustertest

import (
	"flag"
	"net/http"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

var goldenThemes = flag.String("golden-themes", "delete_drop,into", "themes of TestGoldenAtFollower, with a comma between them, or all")

// follow keeps the highest position of an answer and demands it of the next one, as a
// client does that wants to read its own writes.
type follow struct {
	http.RoundTripper
	position uint64
}

func (f *follow) RoundTrip(r *http.Request) (*http.Response, error) {
	if f.position > 0 {
		r = r.Clone(r.Context())
		r.Header.Set("X-Tsdbd-Position", strconv.FormatUint(f.position, 10))
	}
	resp, err := f.RoundTripper.RoundTrip(r)
	if err == nil {
		position, _ := strconv.ParseUint(resp.Header.Get("X-Tsdbd-Position"), 10, 64)
		f.position = max(f.position, position)
	}
	return resp, err
}

// TestGoldenAtFollower replays recorded requests against a follower: its answers are
// those of a server of its own.
func TestGoldenAtFollower(t *testing.T) {
	t.Parallel()
	c := start(t, setup{nodes: 3})
	n := c.follower()
	n.Through(func(rt http.RoundTripper) http.RoundTripper { return &follow{RoundTripper: rt} })
	var want func(string) bool
	if *goldenThemes != "all" {
		want = func(theme string) bool {
			for name := range strings.SplitSeq(*goldenThemes, ",") {
				if theme == name {
					return true
				}
			}
			return false
		}
	}
	apptest.ReplayGolden(t, n.Server, want, nil)
	if l := c.leader(); l == n {
		t.Log("the follower leads in the end")
	}
	c.healthy()
	c.verify()
	c.stop()
}
