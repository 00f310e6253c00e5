package server

import (
	"path/filepath"
	"testing"
)

func TestNotifyWithoutASupervisor(t *testing.T) {
	if err := notify(filepath.Join(t.TempDir(), "none"), "READY=1"); err == nil {
		t.Error("no error")
	}
}
