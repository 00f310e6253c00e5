package httpapi

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi/stall"
	"tsdbd/model"
	"tsdbd/model/point"
)

// slowClient notes what is written between two deadlines, and takes rate bytes
// per second.
type slowClient struct {
	httptest.ResponseRecorder
	rate   int // 0: any
	pieces []int
	dead   time.Time
}

func (c *slowClient) SetWriteDeadline(at time.Time) error {
	c.dead = at
	c.pieces = append(c.pieces, 0)
	return nil
}

func (c *slowClient) Write(b []byte) (int, error) {
	n := len(b)
	if c.rate > 0 {
		n = min(n, int(float64(c.rate)*time.Until(c.dead).Seconds()))
		time.Sleep(time.Duration(float64(n) / float64(c.rate) * float64(time.Second)))
	}
	c.pieces[len(c.pieces)-1] += n
	if n < len(b) {
		return n, http.ErrHandlerTimeout
	}
	return n, nil
}

// A client gets time for every piece of an answer, and no more.
func TestEveryPieceHasItsTime(t *testing.T) {
	c := &slowClient{}
	w := &response{ResponseWriter: c}
	n, err := w.Write(make([]byte, 2*stall.WriteBytes+1))
	if err != nil || n != 2*stall.WriteBytes+1 || w.bytes != int64(n) || !slices.Equal(c.pieces, []int{stall.WriteBytes, stall.WriteBytes, 1}) {
		t.Errorf("%d %v %d %v", n, err, w.bytes, c.pieces)
	}
	if left := time.Until(c.dead); left <= 0 || left > stall.Time {
		t.Errorf("%v are left", left)
	}
	if n, err := w.Write(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}

// A client that reads too slowly is cut off, however steadily it reads, and one
// that reads fast enough is not, however long the answer.
func TestSlowClientIsCut(t *testing.T) {
	for _, c := range []struct {
		rate  int
		bytes int
		cut   time.Duration // after which the client is cut; 0: it is not
	}{
		{stall.ReadRate, 64 << 20, 0},
		{stall.ReadRate * 2, 64 << 20, 0},
		{stall.ReadRate / 2, 1 << 20, 0}, // not yet behind by stall.Time
		{stall.ReadRate / 2, 64 << 20, 2*stall.Time + stall.WriteBytes/stall.ReadRate*2*time.Second},
		{1, 64 << 20, stall.Time + time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			w := &response{ResponseWriter: &slowClient{rate: c.rate}}
			_, err := w.Write(make([]byte, c.bytes))
			took := time.Since(begin)
			if c.cut == 0 && err != nil || c.cut > 0 && (err == nil || took > c.cut || took < stall.Time-time.Second) {
				t.Errorf("%d bytes at %d per second: %v after %v, want an end within %v", c.bytes, c.rate, err, took, c.cut)
			}
		})
	}
}

// slowBody is a body that takes a while to arrive.
type slowBody struct{ left []string }

func (b *slowBody) Read(p []byte) (int, error) {
	if len(b.left) == 0 {
		return 0, io.EOF
	}
	time.Sleep(stall.Time * 3 / 4)
	n := copy(p, b.left[0])
	b.left = b.left[1:]
	return n, nil
}

// sink takes every write.
type sink struct {
	Writer
	table *point.Table
}

func (s sink) Table(string) (*point.Table, error) { return s.table, nil }

func (s sink) RetentionPolicy(string, string) (string, error)            { return "autogen", nil }
func (s sink) Write(context.Context, string, string, *point.Batch) error { return nil }

// The server sends an answer without a body after the handler. The client gets time
// for it, however long it took to send the request.
func TestAnswerAfterSlowBodyHasItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := New(Options{Writer: sink{table: point.NewTable(1)}, Registry: prometheus.NewRegistry()})
		c := &slowClient{ResponseRecorder: *httptest.NewRecorder()}
		begin := time.Now()
		h.ServeHTTP(c, httptest.NewRequest("POST", "/write?db=d", &slowBody{left: []string{"m v=1 1\n", "m v=2 2\n"}}))
		if c.Code != http.StatusNoContent || time.Since(begin) < stall.Time {
			t.Fatalf("%d %s, after %v", c.Code, c.Body, time.Since(begin))
		}
		if left := time.Until(c.dead); left < stall.Time/2 {
			t.Errorf("%v are left", left)
		}
	})
}

func (s sink) WriteExemplars(_ context.Context, _ string, list []model.Exemplar) (kept, older int, err error) {
	return len(list), 0, nil
}
