package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// TestExitAfter: a server that does not end by itself ends all the same, sooner if its disk
// hangs.
func TestExitAfter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		s := &Server{log: slog.New(slog.NewTextHandler(&log, nil))}
		codes := make(chan int, 2)
		exit := func(code int) { codes <- code }
		ends := func(hangs bool, after time.Duration, text string) {
			t.Helper()
			log.Reset()
			defer s.exitAfter(time.Minute, func() bool { return hangs }, exit)()
			time.Sleep(after - 1)
			synctest.Wait()
			if len(codes) > 0 {
				t.Error("too early")
			}
			time.Sleep(time.Nanosecond)
			synctest.Wait()
			if len(codes) != 1 || <-codes != 1 || !strings.Contains(log.String(), text) || !strings.Contains(log.String(), "took="+after.String()) {
				t.Errorf("log: %s", log.String())
			}
		}
		s.exitAfter(time.Minute, func() bool { return true }, exit)()
		time.Sleep(time.Hour)
		if len(codes) > 0 {
			t.Error("a server that has stopped ended the process")
		}
		ends(false, time.Minute+lastMinute, "stopping takes too long")
		ends(true, time.Minute, "the disk hangs")
	})
}
