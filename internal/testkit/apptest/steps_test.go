package apptest

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestFirstSteps(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := StartOn(t, dir)
	s.Query("", "CREATE DATABASE demo")
	s.Write("demo", "weather,city=oslo temperature=-3.5 1500000000000000000")
	const want = `{"results":[{"statement_id":0,"series":[{"name":"weather","columns":["time","city","temperature"],"values":[[1500000000000000000,"oslo",-3.5]]}]}]}` + "\n"
	if got := s.Query("demo", "SELECT * FROM weather"); got != want {
		t.Errorf("got %s", got)
	}
	s.Stop()
	if out := s.Log(); !strings.Contains(out, "There is no data yet") || !strings.Contains(out, "curl -X POST '"+s.URL+"/query'") ||
		!strings.Contains(out, "\nOpen "+s.URL+"/ in a browser, or type: tsdbd query -host "+s.URL+"\n") {
		t.Errorf("said %q", out)
	}

	s = StartOn(t, dir)
	if got := s.Query("demo", "SELECT * FROM weather"); got != want {
		t.Errorf("after a restart: %s", got)
	}
	s.Stop()
	if out := s.Log(); strings.Contains(out, "There is no data yet") {
		t.Errorf("after a restart: said %q", out)
	}
}

func TestKilledServerKeepsWhatItAcknowledged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	written := 0
	for round := range 3 {
		s := StartOn(t, dir)
		s.Query("", "CREATE DATABASE k")
		for range 50 {
			s.Write("k", fmt.Sprintf("m,host=a v=%d %d\nm,host=b v=%d %d", written, written+1, -written, written+1))
			written++
		}
		s.Kill()
		s = StartOn(t, dir)
		var doc struct {
			Results []struct {
				Series []struct{ Values [][]float64 }
			}
		}
		body := s.Query("k", "SELECT count(v), sum(v) FROM m")
		if err := json.Unmarshal([]byte(body), &doc); err != nil || len(doc.Results) != 1 || len(doc.Results[0].Series) != 1 {
			t.Fatalf("round %d: %v: %s", round, err, body)
		}
		if row := doc.Results[0].Series[0].Values[0]; row[1] != float64(2*written) || row[2] != 0 {
			t.Fatalf("round %d: count %v, sum %v; %d points were acknowledged", round, row[1], row[2], 2*written)
		}
		s.Stop()
	}
}

// TestStopUnderLoad stops a server that is being written to: every answer is a
// 204 or asks to come back, and what was answered 204 is there afterwards.
func TestStopUnderLoad(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := StartOn(t, dir)
	s.Query("", "CREATE DATABASE d")
	var acknowledged atomic.Int64
	var writers sync.WaitGroup
	for w := range 4 {
		writers.Go(func() {
			for i := 0; ; i++ {
				resp, err := s.http.Post(s.URL+"/write?db=d", "text/plain", strings.NewReader(fmt.Sprintf("m,w=%d v=1 %d", w, i)))
				if err != nil {
					return // no longer listening
				}
				_ = resp.Body.Close()
				switch resp.StatusCode {
				case 204:
					acknowledged.Add(1)
				case 503:
				default:
					t.Errorf("status %d", resp.StatusCode)
					return
				}
			}
		})
	}
	for acknowledged.Load() < 100 && !t.Failed() {
		time.Sleep(time.Millisecond)
	}
	s.Stop()
	writers.Wait()
	s = StartOn(t, dir)
	body := s.Query("d", "SELECT count(v) FROM m")
	_, rest, _ := strings.Cut(body, `"values":[[0,`)
	count, _, _ := strings.Cut(rest, "]")
	n, err := strconv.ParseInt(count, 10, 64)
	// A write may be stored whose answer was lost with its connection.
	if err != nil || n < acknowledged.Load() || n > acknowledged.Load()+4 || n == 0 {
		t.Errorf("%d acknowledged, %s", acknowledged.Load(), body)
	}
}

func TestServiceEndpoints(t *testing.T) {
	t.Parallel()
	s := Start(t)
	for _, c := range [][2]string{
		{"/health", `"status":"pass"`},
		{"/ping?verbose=true", `"version":"1.`},
		{"/metrics", "tsdbd_http_requests_total"}, // of those before
	} {
		path, want := c[0], c[1]
		resp, err := s.http.Get(s.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(resp.Body)
		_ = resp.Body.Close()
		if err != nil || resp.StatusCode != 200 || !strings.Contains(string(b), want) {
			t.Errorf("%s: %d %v %.200s", path, resp.StatusCode, err, b)
		}
	}
	if s.Stop(); !strings.Contains(s.Log(), "no longer serving") {
		t.Errorf("log: %s", s.Log())
	}
}

func TestASecondServerOnTheSameDataIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	StartOn(t, dir)
	Refusal(t, "-data", dir)
}
