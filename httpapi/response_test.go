package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"testing/synctest"
	"time"
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
	n, err := w.Write(make([]byte, 2*writeBytes+1))
	if err != nil || n != 2*writeBytes+1 || w.bytes != int64(n) || !slices.Equal(c.pieces, []int{writeBytes, writeBytes, 1}) {
		t.Errorf("%d %v %d %v", n, err, w.bytes, c.pieces)
	}
	if left := time.Until(c.dead); left <= 0 || left > stallTime {
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
		{readRate, 64 << 20, 0},
		{readRate * 2, 64 << 20, 0},
		{readRate / 2, 1 << 20, 0}, // not yet behind by stallTime
		{readRate / 2, 64 << 20, 2*stallTime + writeBytes/readRate*2*time.Second},
		{1, 64 << 20, stallTime + time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			begin := time.Now()
			w := &response{ResponseWriter: &slowClient{rate: c.rate}}
			_, err := w.Write(make([]byte, c.bytes))
			took := time.Since(begin)
			if c.cut == 0 && err != nil || c.cut > 0 && (err == nil || took > c.cut || took < stallTime-time.Second) {
				t.Errorf("%d bytes at %d per second: %v after %v, want an end within %v", c.bytes, c.rate, err, took, c.cut)
			}
		})
	}
}
