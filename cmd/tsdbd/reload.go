package main

import (
	"context"
	"log/slog"
	"slices"
	"strings"

	"tsdbd/httpapi"
)

// reloader brings into force what may change while the server runs: the level
// of the log and the certificate. It belongs to one goroutine.
type reloader struct {
	current     *config // what is in force
	read        func() (*config, error)
	level       *slog.LevelVar
	certificate *httpapi.Certificate // nil without TLS
	log         *slog.Logger
}

// reload reads the configuration and the certificate again and tells what
// changed, and what only a restart will bring.
func (r *reloader) reload() {
	next, err := r.read()
	if err != nil {
		// The file may be half written; nothing is changed.
		r.log.Error("configuration not reloaded", "err", err)
		return
	}
	var done []string
	waiting := changed(r.current, next)
	if i := slices.Index(waiting, "log.level"); i >= 0 {
		waiting = slices.Delete(waiting, i, i+1)
		r.level.Set(next.Log.Level)
		r.current.Log.Level = next.Log.Level
		done = append(done, "log.level")
	}
	if r.certificate != nil {
		replaced, err := r.certificate.Reload()
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
