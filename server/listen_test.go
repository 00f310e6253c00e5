package server

import (
	"log/slog"
	"strings"
	"testing"

	"tsdbd/config"
)

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
		var c config.Config
		c.HTTP.MaxConnectionLimit, c.HTTP.UnixSocketEnabled = tt.set, tt.socket
		if got := connectionLimit(&c, tt.files); got != tt.want {
			t.Errorf("setting %d, socket %v, %d files: %d connections, want %d", tt.set, tt.socket, tt.files, got, tt.want)
		}
	}
}

func TestSocketWithoutEffectIsTold(t *testing.T) {
	for _, c := range []struct {
		enabled bool
		socket  string
		want    bool
	}{{false, "/run/tsdbd/tsdbd.sock", true}, {true, "/run/tsdbd/tsdbd.sock", false}, {false, config.Default().HTTP.BindSocket, false}} {
		config, log := config.Default(), new(strings.Builder)
		config.HTTP.UnixSocketEnabled, config.HTTP.BindSocket = c.enabled, c.socket
		warnOfOpenDoors(config, slog.New(slog.NewTextHandler(log, nil)))
		if got := strings.Contains(log.String(), "http.bind-socket has no effect"); got != c.want {
			t.Errorf("%+v: log %s", c, log)
		}
	}
}
