package exchange

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"

	"tsdbd/internal/version"
)

// TestClientReadsItsWrites: each request has the largest position of the answers, so that a
// follower of a cluster shows what the leader has taken from this client.
func TestClientReadsItsWrites(t *testing.T) {
	answers := []string{"", "7", "5", "x", "9"}
	var sent []string
	var agent string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		sent = append(sent, r.Header.Get("X-Tsdbd-Position"))
		agent = r.Header.Get("User-Agent")
		if at := answers[len(sent)-1]; at != "" {
			w.Header().Set("X-Tsdbd-Position", at)
		}
		if len(sent) == 2 { // also an answer that refuses
			w.WriteHeader(http.StatusBadRequest)
		}
	}))
	defer server.Close()
	c := &Client{URL: server.URL}
	for i := range answers {
		if err := c.Write(t.Context(), "d", "", "", nil); (err != nil) != (i == 1) {
			t.Errorf("write %d: %v", i, err)
		}
	}
	if want := []string{"", "", "7", "7", "7"}; !slices.Equal(sent, want) || c.position.Load() != 9 {
		t.Errorf("sent %q, want %q, and then %d", sent, want, c.position.Load())
	}
	if want := "tsdbd/" + version.String(); agent != want {
		t.Errorf("the client calls itself %q, want %q", agent, want)
	}
}
