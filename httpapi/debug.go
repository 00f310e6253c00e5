package httpapi

import (
	"context"
	"errors"
	"io"
	"strconv"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/httpapi/debug"
	"tsdbd/httpapi/encode"
	"tsdbd/httpapi/login"
	"tsdbd/query"
)

// maxWatch is the longest time that /debug/requests may count, and maxProfile the
// longest profile of /debug/pprof/all.
const (
	maxWatch   = 6 * time.Hour
	maxProfile = 10 * time.Minute
)

// debugVars answers /debug/vars.
func (h *Handler) debugVars(w *response, r *request) error {
	statistics, err := h.opt.Query.Statistics(r.Context())
	if err != nil {
		return err
	}
	body, err := debug.Vars(InfluxVersion, h.started, statistics)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", encode.MediaJSON)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return nil
}

// debugRequests answers /debug/requests: how many writes and queries each client
// sends in the seconds after the request.
func (h *Handler) debugRequests(w *response, r *request) error {
	wait := 10 * time.Second
	if text := r.URL.Query().Get("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0 && seconds <= maxWatch.Seconds()) {
			return badRequest("seconds must be a number of seconds, at most six hours")
		}
		wait = time.Duration(seconds * float64(time.Second))
	}
	ctx, stop := context.WithCancel(r.Context())
	defer stop()
	defer context.AfterFunc(h.ctx, stop)()
	body := h.clients.Watch(ctx, wait)
	w.Header().Set("Content-Type", encode.MediaJSON)
	_, _ = w.Write(body) // the client is gone if this fails
	return nil
}

// countClient counts a request for /debug/requests, by "user:address".
func (h *Handler) countClient(r *request, write bool) {
	h.clients.Count(write, func() string {
		if r.user == nil {
			return login.Address(r.Request)
		}
		return r.user.Name + ":" + login.Address(r.Request)
	})
}

// debugArchive answers /debug/pprof/all: an archive with every profile and the
// answers of SHOW SHARDS, STATS and DIAGNOSTICS. The parameters cpu and trace are
// the lengths of a CPU profile and of a trace.
func (h *Handler) debugArchive(w *response, r *request) error {
	var lengths [2]time.Duration
	for i, name := range []string{"cpu", "trace"} {
		if text := r.URL.Query().Get(name); text != "" {
			d, err := time.ParseDuration(text)
			if err != nil || d <= 0 || d > maxProfile {
				return badRequest(name + " must be a duration such as 30s, at most ten minutes")
			}
			lengths[i] = d
		}
	}
	table := func(name string, stmt influxql.Statement) debug.File {
		return debug.File{Name: name, Write: func(w io.Writer) error {
			out := encode.NewOutput(w, encode.Options{})
			defer out.Free()
			enc := encode.New(out, encode.Format{Media: encode.MediaCSV})
			q := &influxql.Query{Statements: influxql.Statements{stmt}}
			err := h.opt.Query.Execute(r.Context(), q, query.ExecuteOptions{User: r.userName()}, enc.Result)
			return errors.Join(err, enc.Finish(), out.Flush())
		}}
	}
	body, err := debug.Archive(r.Context(), lengths[0], lengths[1], table("shards.txt", &influxql.ShowShardsStatement{}),
		table("stats.txt", &influxql.ShowStatsStatement{}), table("diagnostics.txt", &influxql.ShowDiagnosticsStatement{}))
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/gzip")
	w.Header().Set("Content-Disposition", "attachment; filename=profiles.tar.gz")
	_, _ = w.Write(body) // the client is gone if this fails
	return nil
}
