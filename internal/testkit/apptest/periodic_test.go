package apptest

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"
)

// TestSubscription: writes, and what SELECT INTO writes, reach a subscriber.
func TestSubscription(t *testing.T) {
	t.Parallel()
	got := make(chan string, 10)
	receiver := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		select {
		case got <- r.URL.RequestURI() + " " + string(body):
		default: // one more copy than anybody asks for
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer receiver.Close()
	s := Start(t)
	s.Query("", "CREATE DATABASE d")
	s.Query("", fmt.Sprintf(`CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ANY '%s', 'udp://127.0.0.1:9'`, receiver.URL))
	if again := s.Query("", `CREATE SUBSCRIPTION s ON d.autogen DESTINATIONS ALL 'udp://127.0.0.1:9'`); !strings.Contains(again, "subscription already exists") {
		t.Errorf("made twice: %s", again)
	}
	show := s.Query("", "SHOW SUBSCRIPTIONS")
	want := fmt.Sprintf(`{"results":[{"statement_id":0,"series":[{"name":"d","columns":["retention_policy","name","mode","destinations"],"values":[["autogen","s","ANY",["%s","udp://127.0.0.1:9"]]]}]}]}`, receiver.URL)
	if strings.TrimSpace(show) != want {
		t.Errorf("got  %s\nwant %s", show, want)
	}
	for accept, want := range map[string]string{
		"application/csv":       fmt.Sprintf("name,tags,retention_policy,name,mode,destinations\nd,,autogen,s,ANY,\"%s,udp://127.0.0.1:9\"\n", receiver.URL),
		"application/x-msgpack": "\x92" + string([]byte{0xa0 | byte(len(receiver.URL))}) + receiver.URL + "\xb1udp://127.0.0.1:9",
	} {
		req, err := http.NewRequest(http.MethodGet, s.URL+"/query?q=SHOW+SUBSCRIPTIONS", nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Accept", accept)
		resp, err := s.http.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil {
			t.Fatal(err)
		}
		_ = resp.Body.Close()
		if !strings.Contains(string(body), want) {
			t.Errorf("%s: got %q, want %q in it", accept, body, want)
		}
	}
	// It takes effect within a second.
	next := func() string {
		for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
			s.Write("d", "m,h=a v=1 1000\nm,h=b s=\"x\" 1000")
			select {
			case text := <-got:
				return text
			case <-time.After(100 * time.Millisecond):
			}
		}
		t.Fatal("no copy comes")
		return ""
	}
	if text, want := next(), "/write?db=d&precision=ns&rp=autogen m,h=a v=1 1000\nm,h=b s=\"x\" 1000\n"; text != want {
		t.Errorf("got %q, want %q", text, want)
	}
	s.Query("", "DROP SUBSCRIPTION s ON d.autogen")
	if left := s.Query("", "SHOW SUBSCRIPTIONS"); strings.Contains(left, "series") {
		t.Errorf("left: %s", left)
	}
}

// TestContinuousQuery: a window is computed when it has ended.
func TestContinuousQuery(t *testing.T) {
	t.Parallel()
	s := Start(t)
	s.Query("", "CREATE DATABASE d")
	s.Query("", "CREATE CONTINUOUS QUERY q ON d RESAMPLE FOR 1h BEGIN SELECT sum(v) INTO o FROM m WHERE h != 'c' GROUP BY time(1s), h END")
	at := time.Now().Add(-10 * time.Second).Truncate(time.Second).UnixNano()
	s.Write("d", fmt.Sprintf("m,h=a v=1 %d\nm,h=a v=2 %d\nm,h=b v=4 %d\nm,h=c v=8 %d", at, at+1, at, at))
	want := fmt.Sprintf(`[%d,"a",3],[%[1]d,"b",4]`, at)
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		text := s.Query("d", "SELECT h, sum FROM o")
		if strings.Contains(text, want) {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("got %s, want %s", text, want)
		}
	}
}
