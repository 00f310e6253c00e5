package httpapi_test

import (
	"testing"

	"tsdbd/httpapi"
	"tsdbd/internal/testkit/badinput"
)

func TestBadInput(t *testing.T) {
	s := newFakeStore()
	_, base := start(t, s, httpapi.Options{})
	badinput.Run(t, base, false, func(*testing.T) string { return s.fingerprint() })
}
