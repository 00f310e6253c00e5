package subscriber

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"log"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
)

// batch parses lines with times in ns.
func batch(t *testing.T, lines string) *point.Batch {
	t.Helper()
	var p lineproto.Parser
	b := &point.Batch{}
	if _, err := p.Parse(b, point.NewTable(1), []byte(lines), lineproto.Options{}); err != nil {
		t.Fatal(err)
	}
	return b
}

func catalogOf(subs ...meta.Subscription) *meta.Data {
	return &meta.Data{Databases: []*meta.Database{{Name: "d", RetentionPolicies: []*meta.RetentionPolicy{{Name: "rp", Subscriptions: subs}}}}}
}

// receiver is an HTTP subscriber.
type receiver struct {
	*httptest.Server
	mu     sync.Mutex
	got    []string
	status int
	hold   chan struct{} // requests wait for it
}

func newReceiver(t *testing.T) *receiver {
	r := &receiver{status: http.StatusNoContent}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		if r.hold != nil {
			select {
			case <-r.hold:
			case <-req.Context().Done():
			}
		}
		user, password, _ := req.BasicAuth()
		r.mu.Lock()
		defer r.mu.Unlock()
		r.got = append(r.got, fmt.Sprintf("%s %s:%s %s", req.URL.RequestURI(), user, password, body))
		w.WriteHeader(r.status)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *receiver) texts() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.got)
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("%s does not come", what)
		}
	}
}

// TestEncode: what a subscriber parses is what was written.
func TestEncode(t *testing.T) {
	s := New(Options{Catalog: func() *meta.Data {
		return catalogOf(meta.Subscription{Name: "s", Mode: "ALL", Destinations: []string{"udp://127.0.0.1:9"}})
	}})
	s.Start()
	defer s.Close()
	const lines = `m\,\ x,a\ b=c\=d f\ 1=1.5,i=-3i,b=true,s="q\"\\ é,\n =" -5
m z=1e+300,w=5e-324 9223372036854775806
m u=7i 0
`
	// Other servers cannot read NaN and infinities.
	odd := batch(t, "m v=0x7ff0000000000002 1\nm v=0x7ff0000000000000,w=1 2\n")
	if got := string(s.Encode("d", "rp", odd)); got != "m w=1 2\n" {
		t.Errorf("not finite: %q", got)
	}
	b := batch(t, lines)
	text := s.Encode("d", "rp", b)
	again := batch(t, string(text))
	if len(again.Rows) != len(b.Rows) {
		t.Fatalf("%d rows of %q", len(again.Rows), text)
	}
	for i := range b.Rows {
		x, y := &b.Rows[i], &again.Rows[i]
		if x.Series.Key() != y.Series.Key() || x.Time != y.Time || !slices.Equal(x.Layout.Fields, y.Layout.Fields) {
			t.Errorf("row %d: %+v became %+v", i, x, y)
		}
	}
	if string(s.Encode("d", "rp", again)) != string(text) {
		t.Error("a copy of a copy is another")
	}
	if s.Encode("d", "other", b) != nil || s.Encode("e", "rp", b) != nil {
		t.Error("text for nobody")
	}
	if math.Float64frombits(again.Values[0]) != 1.5 && !strings.Contains(string(text), "1.5") {
		t.Errorf("text %q", text)
	}
}

func TestModes(t *testing.T) {
	a, b := newReceiver(t), newReceiver(t)
	withUser := strings.Replace(b.URL, "http://", "http://u:p@", 1)
	data := catalogOf(
		meta.Subscription{Name: "all", Mode: "ALL", Destinations: []string{a.URL, withUser}},
		meta.Subscription{Name: "any", Mode: "ANY", Destinations: []string{a.URL, b.URL}},
	)
	s := New(Options{Catalog: func() *meta.Data { return data }})
	s.Start()
	for i := range 4 {
		s.Send("d", "rp", fmt.Appendf(nil, "m v=1 %d\n", i))
	}
	s.Send("d", "nobody", []byte("m v=1 9\n"))
	eventually(t, "12 texts", func() bool { return s.Counts().Sent == 12 })
	all := strings.Join(append(a.texts(), b.texts()...), "\n")
	if n := strings.Count(all, "/write?db=d&precision=ns&rp=rp"); n != 12 {
		t.Errorf("%d requests:\n%s", n, all)
	}
	if n := strings.Count(strings.Join(b.texts(), "\n"), "u:p m v=1"); n != 4 {
		t.Errorf("%d with a login", n)
	}
	if len(a.texts()) != 6 || len(b.texts()) != 6 { // 4 of ALL, 2 of ANY each
		t.Errorf("%d and %d texts", len(a.texts()), len(b.texts()))
	}
	// ANY goes on to the next; ALL tells of the failure.
	b.mu.Lock()
	b.status = http.StatusInternalServerError
	b.mu.Unlock()
	for i := range 2 {
		s.Send("d", "rp", fmt.Appendf(nil, "m v=2 %d\n", i))
	}
	eventually(t, "2 of ALL and 2 of ANY", func() bool { return s.Counts().Sent == 16 })
	if n := s.Counts().Failed; n != 3 { // twice ALL, once ANY
		t.Errorf("%d failures", n)
	}
	// A dropped subscription gets nothing more.
	data = catalogOf()
	s.Update()
	s.Send("d", "rp", []byte("m v=3 1\n"))
	if text := s.Encode("d", "rp", batch(t, "m v=1 1")); text != nil {
		t.Errorf("text %q", text)
	}
	s.Close()
	if c := s.Counts(); c.Sent != 16 || c.Dropped != 0 {
		t.Errorf("%+v", c)
	}
}

// TestSlow: a subscriber that does not answer holds nobody up, and what waits
// for it is bounded.
func TestSlow(t *testing.T) {
	r := newReceiver(t)
	r.hold = make(chan struct{})
	s := New(Options{QueueLength: 3, QueueBytes: 30, Catalog: func() *meta.Data {
		return catalogOf(meta.Subscription{Name: "s", Mode: "ALL", Destinations: []string{r.URL}})
	}})
	s.Start()
	s.Send("d", "rp", []byte("m v=0 0\n"))
	q := (*s.policies.Load())[policy{"d", "rp"}][0]
	eventually(t, "the first request", func() bool { return q.bytes.Load() == 0 })
	for i := range 6 {
		s.Send("d", "rp", fmt.Appendf(nil, "m v=1 %d\n", i)) // 8 bytes each: 3 fit
	}
	if c := s.Counts(); c.Sent+c.Failed != 0 {
		t.Errorf("Send waited for an answer: %+v", c)
	}
	if n := s.Counts().Dropped; n != 3 {
		t.Errorf("%d dropped", n)
	}
	s.Send("d", "rp", make([]byte, 31))
	if n := s.Counts().Dropped; n != 4 {
		t.Errorf("%d dropped with one too large", n)
	}
	s.Close() // also while a request waits
	if n := s.Counts().Dropped; n != 7 {
		t.Errorf("%d dropped in the end", n)
	}
	s.Send("d", "rp", []byte("m v=1 1\n"))
	close(r.hold)
}

func TestUDP(t *testing.T) {
	conn, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	s := New(Options{Catalog: func() *meta.Data {
		return catalogOf(meta.Subscription{Name: "s", Mode: "ALL", Destinations: []string{"udp://" + conn.LocalAddr().String()}})
	}})
	s.Start()
	defer s.Close()
	// What is in a string never begins a packet.
	line := "m s=\"" + strings.Repeat("x", 20_000) + "\nevil v=1 1\n" + strings.Repeat("x", 20_000) + "\" 1\n"
	long := "m s=\"evil v=1 1\n" + strings.Repeat("y", 70_000) + "\nevil v=1 1\n\" 1\n"
	text := "m v=1 1\n" + line + line + long + "m v=2 2\n"
	s.Send("d", "rp", []byte(text))
	want := []string{"m v=1 1\n" + line, line, "m v=2 2\n"}
	buf := make([]byte, 1<<16)
	for i, w := range want {
		if err := conn.SetReadDeadline(time.Now().Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		n, _, err := conn.ReadFrom(buf)
		if err != nil {
			t.Fatalf("packet %d: %v", i, err)
		}
		if string(buf[:n]) != w {
			t.Errorf("packet %d of %d bytes begins %.40q", i, n, buf[:n])
		}
	}
	eventually(t, "the count", func() bool { c := s.Counts(); return c.Sent == 1 && c.Malformed == 1 })
}

// TestConcurrency: as many texts of a subscription are under way as may be, and
// the bound of a queue holds.
func TestConcurrency(t *testing.T) {
	r := newReceiver(t)
	r.hold = make(chan struct{})
	s := New(Options{Concurrency: 3, QueueBytes: 20, Catalog: func() *meta.Data {
		return catalogOf(
			meta.Subscription{Name: "a", Mode: "ALL", Destinations: []string{r.URL}},
			meta.Subscription{Name: "b", Mode: "ANY", Destinations: []string{r.URL}},
		)
	}})
	s.Start()
	for i := range 3 {
		s.Send("d", "rp", fmt.Appendf(nil, "m v=1 %d\n", i))
		eventually(t, "a text under way", func() bool { return s.QueuedBytes() == 0 })
	}
	for i := range 3 {
		s.Send("d", "rp", fmt.Appendf(nil, "m v=2 %d\n", i)) // 2 of 3 fit
	}
	if c := s.Counts(); c.Dropped != 2 || s.QueuedBytes() != 32 {
		t.Errorf("%d dropped, %d bytes wait", c.Dropped, s.QueuedBytes())
	}
	list := s.Subscriptions()
	if len(list) != 2 || list[0].Name != "a" || list[1].Mode != "ANY" || list[0].QueuedBytes+list[1].QueuedBytes != 32 || list[0].Failures+list[1].Failures != 2 {
		t.Errorf("%+v", list)
	}
	close(r.hold)
	eventually(t, "10 texts", func() bool { return s.Counts().Sent == 10 })
	if c := s.Counts(); c.Points != 10 || s.QueuedBytes() != 0 {
		t.Errorf("%+v, %d bytes wait", c, s.QueuedBytes())
	}
	s.Close()
}

// TestTLS: a subscriber with a certificate of its own is believed only if told.
func TestTLS(t *testing.T) {
	received := make(chan struct{}, 10)
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		received <- struct{}{}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	server.Config.ErrorLog = log.New(io.Discard, "", 0)
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	for _, c := range []struct {
		config *tls.Config
		ok     bool
	}{{nil, false}, {&tls.Config{RootCAs: pool}, true}, {&tls.Config{InsecureSkipVerify: true}, true}} {
		s := New(Options{TLS: c.config, Catalog: func() *meta.Data {
			return catalogOf(meta.Subscription{Name: "s", Mode: "ALL", Destinations: []string{server.URL}})
		}})
		s.Start()
		s.Send("d", "rp", []byte("m v=1 1\n"))
		eventually(t, "an end", func() bool { n := s.Counts(); return n.Sent+n.Failed == 1 })
		if n := s.Counts(); (n.Sent == 1) != c.ok {
			t.Errorf("%+v, want success %v", n, c.ok)
		}
		s.Close()
	}
	if len(received) != 2 {
		t.Errorf("%d requests", len(received))
	}
}
