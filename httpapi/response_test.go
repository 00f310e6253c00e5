package httpapi

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"testing"
	"time"
)

// slowClient notes what is written between two deadlines.
type slowClient struct {
	httptest.ResponseRecorder
	pieces []int
	dead   time.Time
}

func (c *slowClient) SetWriteDeadline(at time.Time) error {
	c.dead = at
	c.pieces = append(c.pieces, 0)
	return nil
}

func (c *slowClient) Write(b []byte) (int, error) {
	if time.Now().After(c.dead) {
		return 0, http.ErrHandlerTimeout
	}
	c.pieces[len(c.pieces)-1] += len(b)
	return len(b), nil
}

// A client gets time for every piece of an answer, and no more.
func TestEveryPieceHasItsTime(t *testing.T) {
	c := &slowClient{}
	w := &response{ResponseWriter: c}
	n, err := w.Write(make([]byte, 2*writeBytes+1))
	if err != nil || n != 2*writeBytes+1 || w.bytes != int64(n) || !slices.Equal(c.pieces, []int{writeBytes, writeBytes, 1}) {
		t.Errorf("%d %v %d %v", n, err, w.bytes, c.pieces)
	}
	if left := time.Until(c.dead); left <= 0 || left > writeTimeout {
		t.Errorf("%v are left", left)
	}
	if n, err := w.Write(nil); n != 0 || err != nil {
		t.Error(n, err)
	}
}
