package replica

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// newLogger returns raft's logger. It writes to ours.
func newLogger(to *slog.Logger) hclog.Logger {
	l := hclog.NewInterceptLogger(&hclog.LoggerOptions{Level: hclog.Off})
	l.RegisterSink(sink{to.With("job", "raft")})
	return l
}

// level returns the level of a message. What raft calls an error it tries again: that is a
// warning here.
func level(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// sink writes what raft logs.
type sink struct{ to *slog.Logger }

// Accept writes a message.
func (l sink) Accept(_ string, lv hclog.Level, msg string, args ...any) {
	ctx := context.Background()
	if !l.to.Enabled(ctx, level(lv)) {
		return
	}
	attrs := make([]any, 0, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case hclog.Format:
			a = fmt.Sprintf(v[0].(string), v[1:]...)
		case string, bool, int, int64, uint64, float64, nil:
		default:
			// Never as a structure: it may be raft itself.
			a = fmt.Sprint(v)
		}
		if i == len(args)-1 && len(args)%2 == 1 {
			attrs = append(attrs, "value")
		}
		attrs = append(attrs, a)
	}
	l.to.Log(ctx, level(lv), msg, attrs...)
}
