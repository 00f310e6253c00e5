package body

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/golang/snappy"
)

func TestRead(t *testing.T) {
	packed := func(s string) string {
		var b bytes.Buffer
		z := gzip.NewWriter(&b)
		if _, err := io.WriteString(z, s); err != nil {
			t.Fatal(err)
		}
		if err := z.Close(); err != nil {
			t.Fatal(err)
		}
		return b.String()
	}
	var b Budget
	b.SetLimit(1000)
	f := func(name, coding, text string, limit int64, want string, wantErr error) {
		t.Helper()
		for _, length := range []bool{true, false} {
			r := httptest.NewRequest("POST", "/", strings.NewReader(text))
			r.Header.Set("Content-Encoding", coding)
			if !length {
				r.ContentLength = -1
			}
			got, err := b.Read(httptest.NewRecorder(), r, limit)
			if !errors.Is(err, wantErr) {
				t.Errorf("%s: %v, want %v", name, err, wantErr)
			}
			if err == nil {
				if got.String() != want {
					t.Errorf("%s: %q, want %q", name, got, want)
				}
				if b.Used() != int64(len(want)) {
					t.Errorf("%s: %d bytes are charged for %d", name, b.Used(), len(want))
				}
				got.Release()
			}
			if b.Used() != 0 {
				t.Errorf("%s: %d bytes stay charged", name, b.Used())
			}
		}
	}
	f("empty", "", "", 10, "", nil)
	f("plain", "", "0123456789", 10, "0123456789", nil)
	f("too large", "", "0123456789x", 10, "", ErrTooLarge)
	f("no limit", "", strings.Repeat("x", 1000), 0, strings.Repeat("x", 1000), nil)
	f("larger than all bodies may be", "", strings.Repeat("x", 1001), 0, "", ErrTooLarge)
	f("gzip", "gzip", packed("0123456789"), 100, "0123456789", nil)
	f("x-gzip", " X-Gzip", packed("0123456789"), 100, "0123456789", nil)
	f("empty gzip", "gzip", "", 100, "", nil)
	f("gzip too large", "gzip", packed(strings.Repeat("x", 101)), 100, "", ErrTooLarge)
	f("gzip larger than all", "gzip", packed(strings.Repeat("x", 1001)), 0, "", ErrTooLarge)
	f("not gzip", "gzip", "0123456789", 100, "", gzip.ErrHeader)
	f("cut gzip", "gzip", packed("0123456789")[:15], 100, "", io.ErrUnexpectedEOF)

	// What others hold is not there.
	other := b.open()
	if err := other.Charge(995); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Read(httptest.NewRecorder(), httptest.NewRequest("POST", "/", strings.NewReader("123456")), 10); err != ErrBusy {
		t.Errorf("with a budget of 5: %v", err)
	}
	other.Release()
}

func TestUnsnappy(t *testing.T) {
	var b Budget
	b.SetLimit(1 << 20)
	f := func(packed []byte, limit int64, want string, wantErr error) {
		t.Helper()
		in := b.open()
		in.Write(packed)
		got, err := in.Unsnappy(limit)
		if err != wantErr {
			t.Errorf("%.20q: %v, want %v", packed, err, wantErr)
		}
		if err == nil {
			if got.String() != want || b.Used() != int64(len(want)) {
				t.Errorf("%.20q: %.20q of %d bytes", packed, got, b.Used())
			}
			got.Release()
		}
		if b.Used() != 0 {
			t.Errorf("%.20q: %d bytes stay charged", packed, b.Used())
		}
	}
	long := strings.Repeat("x", 2000)
	f(snappy.Encode(nil, nil), 10, "", nil)
	f(snappy.Encode(nil, []byte(long)), 2000, long, nil)
	f(snappy.Encode(nil, []byte(long)), 0, long, nil)
	f(snappy.Encode(nil, []byte(long)), 1999, "", ErrTooLarge)
	f(snappy.Encode(nil, make([]byte, 1<<20+1)), 0, "", ErrTooLarge)
	f([]byte("\xff\xff\x03\x00"), 0, "", ErrSnappy)                     // a length that is a lie
	f([]byte("\xff\xff\xff\xff\xff\xff\xff\xff\x7f"), 0, "", ErrSnappy) // and one for no int
	f([]byte("\x05abc"), 0, "", ErrSnappy)
	f(nil, 0, "", ErrSnappy)
}
