package main

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/backup"
)

// TestProgress shows lines that replace each other on a terminal.
func TestProgress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var out strings.Builder
		p := &progress{w: &out, live: true}
		stop := p.during("the server checks its files, %s")
		time.Sleep(2500 * time.Millisecond)
		stop()
		stop()
		synctest.Wait()
		text := out.String()
		if !strings.Contains(text, "files, 1s") || !strings.Contains(text, "files, 2s") || !strings.HasSuffix(text, " \r") {
			t.Errorf("%q", text)
		}
		out.Reset()
		p.checked("20260101T000000Z", backup.Progress{Objects: 4, ObjectsDone: 1, Bytes: 8 << 20, BytesDone: 2 << 20})
		if got := out.String(); got != "\rbackup 20260101T000000Z   25.0%  2.0MiB of 8.0MiB" {
			t.Errorf("%q", got)
		}
	})
}
