package collectd

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

// TestWrongPasswordIsLogged: once in a while, and not for each packet.
func TestWrongPasswordIsLogged(t *testing.T) {
	var log bytes.Buffer // of the listener alone, which is closed before it is read
	in, err := Listen(Options{
		Options: input.Options{Writer: &inputtest.Store{}, Database: "d", Logger: slog.New(slog.NewTextHandler(&log, nil))},
		Address: "127.0.0.1:0", Level: Sign, Users: map[string]string{"alice": "sesame"},
	})
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("udp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	part := func(kind uint16, b []byte) []byte {
		p := binary.BigEndian.AppendUint16(nil, kind)
		return append(binary.BigEndian.AppendUint16(p, uint16(headerBytes+len(b))), b...)
	}
	host := part(partHost, []byte("sender\x00"))
	mac := hmac.New(sha256.New, []byte("wrong"))
	mac.Write(append([]byte("alice"), host...))
	packet := append(part(partSigned, append(mac.Sum(nil), "alice"...)), host...)
	deadline := time.Now().Add(time.Minute)
	for in.Counts().BadPoints.Load() < 3 {
		if _, err := conn.Write(packet); err != nil || time.Now().After(deadline) {
			t.Fatalf("%d packets refused: %v", in.Counts().BadPoints.Load(), err)
		}
		time.Sleep(time.Millisecond)
	}
	if err := in.Close(context.Background()); err != nil {
		t.Error(err)
	}
	if text := log.String(); strings.Count(text, "packets refused") != 1 || !strings.Contains(text, "its user or password is wrong") {
		t.Errorf("log: %s", text)
	}
}
