package server

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"regexp"
	"strings"
	"testing"
	"time"
)

func TestConsoleLog(t *testing.T) {
	var out bytes.Buffer
	log := logger("console", &out, slog.LevelInfo)
	f := func(want string) {
		t.Helper()
		got := out.String()
		out.Reset()
		if want == "" && got == "" {
			return
		}
		if !regexp.MustCompile(`^\d\d:\d\d:\d\d `).MatchString(got) || got[9:] != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
	log.Debug("hidden")
	f("")
	log.Info("serving", "address", "127.0.0.1:1", "took", 3*time.Millisecond, "tls", false)
	f("INFO  serving address=127.0.0.1:1 took=3ms tls=false\n")
	log.Error("no", "err", errors.New(`say "no" to it`), "empty", "", "line", "a\nb", "eq", "a=b")
	f("ERROR no err=\"say \\\"no\\\" to it\" empty=\"\" line=\"a\\nb\" eq=\"a=b\"\n")
	log.With("db", "d").WithGroup("g").With("x", 1).Warn("m", "y", 2, slog.Group("h", "z", 3), slog.Attr{})
	f("WARN  m db=d g.x=1 g.y=2 g.h.z=3\n")
}

// TestLogFormats writes the same record in every format to a file that is no
// terminal.
func TestLogFormats(t *testing.T) {
	for _, format := range []string{"auto", "console", "text", "json"} {
		var out bytes.Buffer
		logger(format, &out, slog.LevelInfo).Info("m", "k", "v")
		switch format {
		case "json":
			var line map[string]string
			if err := json.Unmarshal(out.Bytes(), &line); err != nil || line["k"] != "v" {
				t.Errorf("%s: %s", format, out.String())
			}
		case "console":
			if !strings.HasSuffix(out.String(), " INFO  m k=v\n") {
				t.Errorf("%s: %s", format, out.String())
			}
		default:
			if !strings.HasPrefix(out.String(), "time=") || !strings.HasSuffix(out.String(), " level=INFO msg=m k=v\n") {
				t.Errorf("%s: %s", format, out.String())
			}
		}
	}
}
