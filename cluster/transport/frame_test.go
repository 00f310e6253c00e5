package transport

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/formats"
)

var exampleHello = Hello{
	OldestProtocol: 1, Protocol: 2, Version: "1.2.3", Cluster: "4f1c7c5be1b54d6c9d4cf1e4e26a8d11", Name: "n3", ID: "n3/7f3a90c2",
	Address: "10.0.0.3:8088", Clock: time.Date(2026, 1, 2, 3, 4, 5, 6, time.UTC),
	Age: 300, Process: 1 << 63,
}

func TestGoldenFrames(t *testing.T) {
	formats.Golden(t, "hello-v2", appendFrame(nil, helloFrame, appendHello(nil, exampleHello)))
	formats.Golden(t, "refusal-v1", appendFrame(nil, refusalFrame, []byte("clock of n3")))
	formats.Golden(t, "accept-v1", append(appendFrame(nil, acceptFrame, nil), byte(Raft)))
	formats.Examples(t, "cluster-wire.md")
}

// TestOldHello reads the Hello of a program that knew no age.
func TestOldHello(t *testing.T) {
	b, err := os.ReadFile(filepath.Join("testdata", "hello-v1"))
	if err != nil {
		t.Fatal(err)
	}
	_, payload, err := readFrame(bytes.NewReader(b))
	if err != nil {
		t.Fatal(err)
	}
	want := exampleHello
	want.Age, want.Process = 0, 0
	if got, err := decodeHello(payload); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
}

func TestHelloRoundTrip(t *testing.T) {
	got, err := decodeHello(append(appendHello(nil, exampleHello), "fields of a later version"...))
	if err != nil || got != exampleHello {
		t.Fatalf("%+v, %v", got, err)
	}
}

func TestBadHello(t *testing.T) {
	f := func(want string, change func(*Hello)) {
		t.Helper()
		h := exampleHello
		change(&h)
		if _, err := decodeHello(appendHello(nil, h)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want %s", err, want)
		}
	}
	f("protocols 0 to 2", func(h *Hello) { h.OldestProtocol = 0 })
	f("protocols 3 to 2", func(h *Hello) { h.OldestProtocol = 3 })
	f("protocols 1 to 1073741825", func(h *Hello) { h.Protocol = 1<<30 + 1 })
	f("node without a name", func(h *Hello) { h.Name = "" })
	f(`text "n\n" is not printable`, func(h *Hello) { h.Name = "n\n" })
	f("is not printable", func(h *Hello) { h.Version = "\xff" })
	f("text of 256 bytes, at most 255", func(h *Hello) { h.Address = strings.Repeat("a", 256) })
	good := appendHello(nil, exampleHello)
	for n := range good {
		if _, err := decodeHello(good[:n]); err == nil && n != len(good)-12 { // there an older program ends

			t.Errorf("%d of %d bytes: no error", n, len(good))
		}
	}
}

func TestBadFrames(t *testing.T) {
	f := func(b string, want string) {
		t.Helper()
		if _, _, err := readFrame(strings.NewReader(b)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %s", b, err, want)
		}
	}
	f("", "EOF")
	f("tsdb\x01\x02", "unexpected EOF")
	f("GET / HTTP/1.1\r\n", "does not speak the protocol")
	f("tsdb\x02\x02\x00\x00", "frames of version 2 instead of 1: one of the nodes runs a newer tsdbd; use that version or newer on the other")
	f("tsdb\x01\x00\x00\x00", "unknown type 0")
	f("tsdb\x01\x05\x00\x00", "unknown type 5")
	f("tsdb\x01\x02\x01\x10", "frame of 4097 bytes, at most 4096")
	f("tsdb\x01\x02\x05\x00abcd", "unexpected EOF")
	if _, err := expectFrame(strings.NewReader("tsdb\x01\x01\x00\x00"), helloFrame); err == nil || !strings.Contains(err.Error(), "frame of type 1, not 2") {
		t.Error(err)
	}
	_, err := expectFrame(strings.NewReader("tsdb\x01\x04\x06\x00a\nb\x1bc\xff"), helloFrame)
	var r *Refusal
	if !errors.As(err, &r) || !r.ByPeer || r.Reason != "a b c\uFFFD" {
		t.Errorf("%+v", err)
	}
	if got := printable(strings.Repeat("ä", 1000)); len(got) != maxReason || strings.Trim(got, "ä") != "" {
		t.Errorf("%d bytes", len(got))
	}
}

// FuzzFrame decodes garbage, and what it accepts comes back.
func FuzzFrame(f *testing.F) {
	f.Add(appendFrame(nil, helloFrame, appendHello(nil, exampleHello)))
	f.Add(appendFrame(nil, refusalFrame, []byte("no")))
	f.Add([]byte("tsdb\x01\x02\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		r := bytes.NewReader(b)
		kind, payload, err := readFrame(r)
		if err != nil {
			return
		}
		used := b[:len(b)-r.Len()]
		if !bytes.Equal(appendFrame(nil, kind, payload), used) {
			t.Fatalf("%q was read as type %d, %q", used, kind, payload)
		}
		if kind == refusalFrame {
			if s := printable(string(payload)); len(s) > maxReason || printable(s) != s {
				t.Fatalf("%q", s)
			}
		}
		h, err := decodeHello(payload)
		if err != nil {
			return
		}
		again, err := decodeHello(appendHello(nil, h))
		if err != nil || again != h {
			t.Fatalf("%+v came back as %+v, %v", h, again, err)
		}
	})
}
