package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestExitAfter: a server that does not end by itself ends all the same.
func TestExitAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
		codes := make(chan int, 2)
		s.exitAfter(time.Minute, func(code int) { codes <- code })()
		time.Sleep(time.Hour)
		if len(codes) > 0 {
			t.Error("a server that has stopped ended the process")
		}
		defer s.exitAfter(time.Minute, func(code int) { codes <- code })()
		time.Sleep(time.Minute - 1)
		synctest.Wait()
		if len(codes) > 0 {
			t.Error("too early")
		}
		time.Sleep(time.Nanosecond)
		synctest.Wait()
		if len(codes) != 1 || <-codes != 1 || !strings.Contains(log.String(), "stopping takes too long") || !strings.Contains(log.String(), "took=1m0s") {
			t.Errorf("log: %s", log.String())
		}
	})
}
