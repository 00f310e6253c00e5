package apptest

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/testkit/testseed"
)

// requests counts requests of a bucket by their kind.
type requests struct {
	mu     sync.Mutex
	counts map[string]int
}

// take returns the counts since the call before.
func (c *requests) take() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := c.counts
	c.counts = map[string]int{}
	return out
}

// note counts a request, and leaves the answer to the bucket.
func (c *requests) note(_ http.ResponseWriter, r *http.Request) bool {
	kind := r.Method
	switch {
	case r.URL.Query().Has("list-type"):
		kind = "LIST"
	case isBody(r):
		kind = "GET object"
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.counts[kind]++
	return false
}

// total returns how many there are, and a text with each kind.
func total(counts map[string]int) (n int, text string) {
	for _, kind := range slices.Sorted(maps.Keys(counts)) {
		n += counts[kind]
		text += fmt.Sprintf(" %d %s", counts[kind], kind)
	}
	return n, text
}

// TestColdRequests counts the requests that a cold store gets, of which docs/cold.md says what they
// cost. It fails if there are far more than what the page says: a round in the background, each
// minute, may add its own.
func TestColdRequests(t *testing.T) {
	t.Parallel()
	r := rand.New(rand.NewPCG(testseed.Of(t), 4))
	bucket := objecttest.NewServer(t)
	counts := &requests{counts: map[string]int{}}
	bucket.Fault(counts.note)
	s := New(t)
	s.Env = append([]string{
		"TSDBD_COLD_URL=s3://" + objecttest.Bucket + "/p", "TSDBD_COLD_ENDPOINT=" + bucket.URL, "TSDBD_COLD_PATH_STYLE=true",
		"TSDBD_COLD_ACCESS_KEY=a", "TSDBD_COLD_SECRET_KEY=b",
	}, coldEnv...)
	s.Restart()
	s.Query("", "CREATE DATABASE d")
	const (
		begin  = 1_500_249_600_000_000_000 // a Monday
		series = 16
		shards = 3
	)
	var uploads []int
	for shard := range int64(shards) {
		for h := range series {
			var lines strings.Builder
			for i := range int64(2500) {
				fmt.Fprintf(&lines, "m,h=h%02d", h)
				for f := range 20 {
					fmt.Fprintf(&lines, "%cf%d=%v", " ,"[min(f, 1)], f, r.Float64())
				}
				fmt.Fprintf(&lines, " %d\n", begin+shard*coldWeek+i*240e9)
			}
			s.Write("d", lines.String())
		}
		for deadline := time.Now().Add(2 * time.Minute); ; time.Sleep(200 * time.Millisecond) {
			counts.take()
			if status, body := s.coldDo("sweep"); status != http.StatusOK {
				t.Fatalf("sweep: %d %s", status, body)
			}
			if n := len(s.coldStatus().Shards); n == int(shard)+1 {
				all, text := total(counts.take())
				t.Logf("upload of a shard, and a sweep: %d requests:%s", all, text)
				uploads = append(uploads, all)
				break
			}
			if time.Now().After(deadline) {
				t.Fatalf("shards do not go to the store: %+v\n%s", s.coldStatus(), tail(s.Log()))
			}
		}
	}
	counts.take()
	s.coldDo("sweep")
	sweep, text := total(counts.take())
	t.Logf("a sweep: %d requests:%s", sweep, text)
	st := s.coldStatus()
	t.Logf("%d objects of %d bytes", st.Objects, st.Bytes)
	if st.Bytes < shards*5<<20 {
		t.Fatalf("%d bytes are too few to tell ranges of objects apart", st.Bytes)
	}
	if sweep > sweepRequests {
		t.Errorf("a sweep takes %d requests, at most %d are known", sweep, sweepRequests)
	}
	if each := slices.Max(uploads[1:]) - sweep; each > uploadRequests { // the first one claims the store
		t.Errorf("the upload of a shard in one piece takes %d requests, at most %d are known", each, uploadRequests)
	}
	if status, body := s.coldDo("verify"); status != http.StatusOK {
		t.Errorf("verify: %d %s", status, body)
	}
	if got := counts.take(); got[http.MethodHead] != st.Objects || got["GET object"] > 0 {
		t.Errorf("verify of %d objects: %v", st.Objects, got)
	}
	if s.Query("d", "SELECT count(f1), mean(f2), max(f3) FROM m GROUP BY h"); counts.take()["GET object"] > 0 {
		t.Error("sums over all need the store")
	}
	most, bytes := 0, int64(0)
	for h := range series {
		if h%5 != 0 { // neighbors share ranges
			continue
		}
		s.Stop()
		if err := os.RemoveAll(filepath.Join(s.Dir, "cold-cache")); err != nil {
			t.Fatal(err)
		}
		s.Restart()
		counts.take()
		day := begin + int64(24*time.Hour)*3
		q := fmt.Sprintf("SELECT f7 FROM m WHERE h = 'h%02d' AND time >= %d AND time < %d", h, day, day+int64(24*time.Hour))
		if answer, err := s.ask(t.Context(), q); err != nil || strings.Count(answer, "[") < 300 {
			t.Fatalf("%s: %.300s %v", q, answer, err)
		}
		got := counts.take()
		n := got["GET object"]
		t.Logf("%s: %v, %d bytes", q, got, s.coldStatus().Cache.BytesFetched)
		most, bytes = max(most, n), max(bytes, s.coldStatus().Cache.BytesFetched)
	}
	if most > queryRequests || bytes > queryRequests<<20 {
		t.Errorf("a query of one series and a day takes up to %d requests and %d bytes, at most %d and as many MiB are known", most, bytes, queryRequests)
	}
}

// What docs/cold.md says, and room for a round in the background.
const (
	uploadRequests = 60 // of a shard in one piece
	sweepRequests  = 60
	queryRequests  = 2 // if what is asked for is in two ranges
)
