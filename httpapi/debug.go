package httpapi

import (
	"crypto/fips140"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/pprof"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/httpapi/encode"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/query"
	"tsdbd/query/result"
)

// profile answers below /debug/pprof/, as package net/http/pprof does.
var profile = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimPrefix(r.URL.Path, "/debug/pprof/") {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Index(w, r)
	}
})

// statisticObject is a statistic as /debug/vars shows it, and as Telegraf's
// inputs.influxdb reads it.
type statisticObject struct {
	Name   string            `json:"name"`
	Tags   map[string]string `json:"tags"`
	Values map[string]any    `json:"values"`
}

// debugVars answers /debug/vars: one object with what InfluxDB says of itself
// and a member for each statistic of SHOW STATS.
func (h *Handler) debugVars(w *response, r *request) error {
	now := time.Now()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	vars := map[string]any{
		"system": map[string]any{
			"currentTime": now.UTC().Format(time.RFC3339Nano), "started": h.started.UTC().Format(time.RFC3339Nano),
			"uptime": int64(now.Sub(h.started).Seconds()),
		},
		"build":    map[string]string{"Branch": "", "Build Time": "", "Commit": "", "Version": InfluxVersion},
		"crypto":   map[string]any{"FIPS": fips140.Enabled(), "ensureFIPS": false, "implementation": "Go", "passwordHash": "bcrypt"},
		"cmdline":  os.Args,
		"memstats": m,
	}
	objects, err := h.statisticObjects(r)
	if err != nil {
		return err
	}
	for _, o := range objects {
		key := statisticKey(o)
		for n := 1; vars[key] != nil; n++ {
			key = fmt.Sprintf("%s:%d", statisticKey(o), n)
		}
		vars[key] = o
	}
	body, err := json.MarshalIndent(vars, "", "  ")
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", encode.MediaJSON)
	_, _ = w.Write(append(body, '\n')) // the client is gone if this fails
	return nil
}

// statisticKey names a statistic: name:database for those of a database,
// name:bind for those of a listener.
func statisticKey(o statisticObject) string {
	key := []string{o.Name}
	for _, tag := range []string{"proto", "bind", "database", "retentionPolicy", "id"} {
		if v := o.Tags[tag]; v != "" {
			key = append(key, v)
		}
	}
	return strings.Join(key, ":")
}

// statisticObjects asks the querier for its statistics.
func (h *Handler) statisticObjects(r *request) ([]statisticObject, error) {
	var objects []statisticObject
	var failed error
	q := &influxql.Query{Statements: influxql.Statements{&influxql.ShowStatsStatement{}}}
	err := h.opt.Query.Execute(r.Context(), q, query.ExecuteOptions{User: r.userName()}, func(res *result.Result) error {
		if res.Err != nil {
			failed = res.Err
		}
		for _, s := range res.Series {
			if s.Rows == 0 {
				continue
			}
			o := statisticObject{Name: s.Name, Tags: map[string]string{}, Values: map[string]any{}}
			for _, t := range s.Tags {
				o.Tags[t.Key] = t.Value
			}
			for c, name := range s.Columns {
				if v := cellValue(&s.Values[c]); v != nil {
					o.Values[name] = v
				}
			}
			objects = append(objects, o)
		}
		return nil
	})
	if err == nil {
		err = failed
	}
	return objects, err
}

// cellValue returns the first value of a column, nil for a null.
func cellValue(v *column.Vector) any {
	switch {
	case v.Len() == 0 || !v.IsValid(0):
		return nil
	case v.Type == model.Float:
		return v.Floats[0]
	case v.Type == model.Integer:
		return v.Ints[0]
	case v.Type == model.Unsigned:
		return v.Uints[0]
	case v.Type == model.String:
		return v.Strings[0]
	}
	return v.Bools[0]
}

// Statistics returns what the handler counts in InfluxDB's names, for SHOW
// STATS: httpd and write.
func (h *Handler) Statistics() []query.Statistic {
	c := &h.counts
	var tags model.Tags
	if h.opt.Bind != "" {
		tags = model.Tags{{Key: "bind", Value: h.opt.Bind}}
	}
	return []query.Statistic{
		{Name: "httpd", Tags: tags, Values: map[string]any{
			"req": c.requests.Load(), "reqActive": c.active.Load(), "reqDurationNs": c.requestNs.Load(),
			"queryReq": c.queries.Load(), "queryReqDurationNs": c.queryNs.Load(), "queryRespBytes": c.queryBytes.Load(),
			"writeReq": c.writes.Load(), "writeReqDurationNs": c.writeNs.Load(), "writeReqBytes": c.writeBytes.Load(),
			"writeReqActive": c.activeWrites.Load(), "valuesWrittenOK": c.values.Load(),
			"pointsWrittenOK": c.points.Load(), "pointsWrittenDropped": c.dropped.Load(), "pointsWrittenFail": c.pointsFailed.Load(),
			"pingReq": c.pings.Load(), "statusReq": c.statuses.Load(),
			"promWriteReq": c.promWrites.Load(), "promReadReq": c.promReads.Load(),
			"clientError": c.clientErrors.Load(), "serverError": c.serverErrors.Load(),
			"authFail": c.authFailures.Load(), "recoveredPanics": c.panics.Load(),
		}},
		{Name: "write", Values: map[string]any{
			"req": c.writes.Load() + c.promWrites.Load(), "pointReq": c.points.Load() + c.dropped.Load() + c.pointsFailed.Load(),
			"pointReqLocal": c.points.Load() + c.dropped.Load() + c.pointsFailed.Load(),
			"writeOk":       c.points.Load(), "writeDrop": c.dropped.Load(), "writeError": c.pointsFailed.Load(),
			"writeTimeout": int64(0), // a write has no time limit
		}},
	}
}

// maxWatch is how long /debug/requests may count.
const maxWatch = 6 * time.Hour

// debugRequests answers /debug/requests: who writes and queries how much in
// the seconds after the request came.
func (h *Handler) debugRequests(w *response, r *request) error {
	wait := 10 * time.Second
	if text := r.URL.Query().Get("seconds"); text != "" {
		seconds, err := strconv.ParseFloat(text, 64)
		if err != nil || !(seconds >= 0 && seconds <= maxWatch.Seconds()) {
			return badRequest("seconds must be a number of seconds, at most six hours")
		}
		wait = time.Duration(seconds * float64(time.Second))
	}
	watch := h.watchers.add()
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-r.Context().Done():
	case <-h.ctx.Done():
	}
	seen := h.watchers.remove(watch)
	w.Header().Set("Content-Type", encode.MediaJSON)
	b, comma := []byte("{"), ""
	for _, name := range slices.Sorted(maps.Keys(seen)) {
		key, _ := json.Marshal(name) // a text always encodes
		b = fmt.Appendf(b, `%s%s%s: {"writes":%d,"queries":%d}`, comma, "\n", key, seen[name].writes, seen[name].queries)
		comma = ","
	}
	_, _ = w.Write(append(b, "\n}\n"...)) // the client is gone if this fails
	return nil
}
