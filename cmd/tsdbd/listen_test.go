package main

import "testing"

func TestConnectionLimit(t *testing.T) {
	for _, tt := range []struct {
		set    int
		socket bool
		files  uint64
		want   int
	}{
		{0, false, 1024, 768},
		{0, true, 1024, 384},
		{0, false, 1, 1},
		{0, false, 0, 0},         // not known
		{0, false, 1<<64 - 1, 0}, // no limit
		{5000, true, 1024, 5000}, // the operator's word counts
	} {
		var c config
		c.HTTP.MaxConnectionLimit, c.HTTP.UnixSocketEnabled = tt.set, tt.socket
		if got := c.connectionLimit(tt.files); got != tt.want {
			t.Errorf("setting %d, socket %v, %d files: %d connections, want %d", tt.set, tt.socket, tt.files, got, tt.want)
		}
	}
}
