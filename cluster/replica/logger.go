package replica

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/hashicorp/go-hclog"
)

// logger is raft's logger. It writes to ours. What raft calls an error it tries again:
// that is a warning here.
type logger struct {
	hclog.Logger // for what raft does not call
	to           *slog.Logger
}

func newLogger(to *slog.Logger) hclog.Logger {
	return logger{hclog.NewNullLogger(), to.With("job", "raft")}
}

func level(l hclog.Level) slog.Level {
	switch l {
	case hclog.Error, hclog.Warn:
		return slog.LevelWarn
	case hclog.Info:
		return slog.LevelInfo
	}
	return slog.LevelDebug
}

// Log writes a message.
func (l logger) Log(lv hclog.Level, msg string, args ...any) {
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

// Trace writes a message of that level.
func (l logger) Trace(msg string, args ...any) { l.Log(hclog.Trace, msg, args...) }

// Debug writes a message of that level.
func (l logger) Debug(msg string, args ...any) { l.Log(hclog.Debug, msg, args...) }

// Info writes a message of that level.
func (l logger) Info(msg string, args ...any) { l.Log(hclog.Info, msg, args...) }

// Warn writes a message of that level.
func (l logger) Warn(msg string, args ...any) { l.Log(hclog.Warn, msg, args...) }

// Error writes a message of that level.
func (l logger) Error(msg string, args ...any) { l.Log(hclog.Error, msg, args...) }

// With returns a logger that adds args to every message.
func (l logger) With(args ...any) hclog.Logger {
	return logger{l.Logger, l.to.With(args...)}
}
