package server

import (
	"context"
	"log/slog"
	"strings"

	"tsdbd/config"
	"tsdbd/httpapi"
)

// reloader brings into force what may change while the server runs: the level
// of the log, the limits and the certificate. It belongs to one goroutine.
type reloader struct {
	current      *config.Config // what is in force
	read         func() (*config.Config, []config.Note, error)
	level        *slog.LevelVar
	setLimits    func(*config.Config)
	certificates []*httpapi.Certificate // none without TLS
	accessLog    *reopenedFile          // nil without a file of its own
	log          *slog.Logger
}

// reload reads the configuration and the certificate again and tells what
// changed, and what only a restart will bring.
func (r *reloader) reload() {
	next, _, err := r.read()
	if err != nil {
		// The file may be half written; nothing is changed.
		r.log.Error("configuration not reloaded", "err", err)
		return
	}
	var done []string
	var waiting []string
	for _, key := range config.Changed(r.current, next) {
		if key != "log.level" && !limitKeys[key] {
			waiting = append(waiting, key)
			continue
		}
		done = append(done, key)
		was, is := r.current.Value(key), next.Value(key)
		r.log.Info("setting changed", "key", key, "was", was.Interface(), "is", is.Interface())
		was.Set(is)
	}
	r.level.Set(slog.Level(r.current.Log.Level))
	r.setLimits(r.current)
	if r.accessLog != nil {
		if err := r.accessLog.reopen(); err != nil {
			r.log.Error("access log not opened again, the old file is written to", "err", err)
		}
	}
	for _, certificate := range r.certificates {
		replaced, err := certificate.Reload()
		if err != nil {
			r.log.Error("certificate not reloaded, the old one stays", "err", err)
		}
		if replaced {
			done = append(done, "certificate")
		}
	}
	list := func(keys []string) string {
		if len(keys) == 0 {
			return "nothing"
		}
		return strings.Join(keys, ", ")
	}
	// Whatever the level is now, who sent the signal is to see an answer.
	r.log.Log(context.Background(), max(slog.LevelInfo, r.level.Level()), "configuration reloaded", "changed", list(done), "at_restart", list(waiting))
}
