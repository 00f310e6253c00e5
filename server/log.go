package server

import (
	"context"
	"io"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/term"
)

// logger returns the server's log, whose level may be changed.
func logger(format string, w io.Writer, level slog.Leveler) *slog.Logger {
	opt := &slog.HandlerOptions{Level: level}
	switch {
	case format == "json":
		return slog.New(slog.NewJSONHandler(w, opt))
	case format == "console" || format == "auto" && isTerminal(w):
		return slog.New(&consoleHandler{out: &lockedWriter{w: w}, level: level})
	}
	return slog.New(slog.NewTextHandler(w, opt))
}

// isTerminal reports whether w is a terminal.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// consoleHandler writes a line for people: local time, level, message, then
// keys and values, quoted where they need it.
type consoleHandler struct {
	out    *lockedWriter
	level  slog.Leveler
	attrs  string // of With, as they are printed
	prefix string // of WithGroup
}

// lockedWriter takes a line at a time.
type lockedWriter struct {
	sync.Mutex
	w io.Writer
}

// Enabled reports whether a level is logged.
func (h *consoleHandler) Enabled(_ context.Context, l slog.Level) bool { return l >= h.level.Level() }

// WithAttrs returns a handler that prints attributes with every line.
func (h *consoleHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	next := *h
	b := []byte(h.attrs)
	for _, a := range attrs {
		b = appendAttr(b, h.prefix, a)
	}
	next.attrs = string(b)
	return &next
}

// WithGroup returns a handler that puts a name before the following keys.
func (h *consoleHandler) WithGroup(name string) slog.Handler {
	next := *h
	if name != "" {
		next.prefix += name + "."
	}
	return &next
}

// Handle prints a line.
func (h *consoleHandler) Handle(_ context.Context, r slog.Record) error {
	var b []byte
	if !r.Time.IsZero() {
		b = append(r.Time.Local().AppendFormat(b, time.TimeOnly), ' ')
	}
	level := r.Level.String()
	b = append(b, level...)
	b = append(b, strings.Repeat(" ", max(1, 6-len(level)))...)
	b = append(b, r.Message...)
	b = append(b, h.attrs...)
	r.Attrs(func(a slog.Attr) bool {
		b = appendAttr(b, h.prefix, a)
		return true
	})
	h.out.Lock()
	defer h.out.Unlock()
	_, err := h.out.w.Write(append(b, '\n'))
	return err
}

// appendAttr appends a space and key=value; a group becomes keys with its name.
func appendAttr(dst []byte, prefix string, a slog.Attr) []byte {
	v := a.Value.Resolve()
	if v.Kind() == slog.KindGroup {
		if a.Key != "" {
			prefix += a.Key + "."
		}
		for _, member := range v.Group() {
			dst = appendAttr(dst, prefix, member)
		}
		return dst
	}
	if a.Equal(slog.Attr{}) {
		return dst
	}
	dst = append(append(append(append(dst, ' '), prefix...), a.Key...), '=')
	text := v.String()
	if text == "" || strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r == '"' || r == '=' || !strconv.IsPrint(r) }) {
		return strconv.AppendQuote(dst, text)
	}
	return append(dst, text...)
}
