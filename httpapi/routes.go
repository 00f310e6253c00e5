package httpapi

import (
	"cmp"
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tsdbd/httpapi/browser"
	"tsdbd/httpapi/debug"
	"tsdbd/httpapi/login"
	"tsdbd/httpapi/promapi"
	"tsdbd/query"
)

// maxAsync bounds the queries that run in the background.
const maxAsync = 64

// New returns a handler of all routes. Close releases it.
func New(opt Options) *Handler {
	opt.setDefaults()
	h := &Handler{opt: opt, log: opt.Logger, started: time.Now(), async: make(chan struct{}, maxAsync)}
	h.ctx, h.cancel = context.WithCancel(context.Background())
	h.metrics = newMetrics(opt.Registry)
	h.SetLimits(opt.Limits)
	h.pages = browser.New(browser.Options{Origins: opt.AllowedOrigins, Hosts: opt.AllowedHosts, Machine: opt.Machine, Logins: opt.AuthEnabled})
	h.logins = login.New(opt.CheckPassword, opt.SharedSecret)
	h.challenge = fmt.Sprintf("Basic realm=%q", opt.Realm)
	h.headers = http.Header{
		"X-Influxdb-Version": {InfluxVersion}, "X-Influxdb-Build": {"OSS"}, "X-Tsdbd-Version": {opt.Version}, "X-Content-Type-Options": {"nosniff"},
	}
	if opt.AuthEnabled {
		h.background.Go(h.logins.Prepare) // or the first unknown user would take longer
	}
	h.routes = make(map[string]*route)
	for _, rt := range h.table() {
		h.routes[rt.path] = &rt
	}
	return h
}

// table returns all routes: its own lines, and for each of promapi.HealthPaths, otlpPaths,
// API.Endpoints of promapi and Options.Mounts one.
func (h *Handler) table() []route {
	noCatalog, noPprof := h.opt.Catalog == nil, !h.opt.Pprof
	routes := []route{
		{path: "/query", name: "query", access: byRoute, place: byStatement, gzip: true, reads: true, methods: methods{"GET": h.query, "POST": h.query, "OPTIONS": status(http.StatusOK)}},
		{path: "/write", name: "write", access: byRoute, place: byRows, gzip: true, methods: methods{"POST": h.writeV1, "OPTIONS": status(http.StatusOK)}},
		{path: "/api/v2/write", name: "v2_write", access: byRoute, place: byRows, fail: errorV2, gzip: true, methods: methods{"POST": h.writeV2, "OPTIONS": status(http.StatusOK)}},
		{path: "/api/v2/delete", name: "v2_delete", access: byRoute, place: query.Leader, fail: errorV2, methods: methods{"POST": h.deleteV2}},
		{path: "/api/v2/query", name: "v2_query", access: byRoute, place: query.ThisNode, fail: errorV2, gzip: true, reads: true, methods: methods{"POST": fluxDisabled, "OPTIONS": status(http.StatusOK)}},
		{path: "/api/v2/buckets", name: "v2_buckets", access: byRoute, place: byMethod, fail: errorV2, methods: methods{"GET": h.listBuckets, "POST": h.createBucket}, absent: noCatalog},
		{path: "/api/v2/buckets/", name: "v2_buckets", access: byRoute, place: byMethod, fail: errorV2, any: h.bucket, absent: noCatalog},
		{path: "/api/v2/orgs", name: "v2_orgs", access: LoggedIn, place: query.ThisNode, fail: errorV2, methods: methods{"GET": h.listOrgs}},
		{path: "/api/v1/prom/write", name: "prom_write", access: byRoute, place: byRows, methods: methods{"POST": h.named(h.promWrite)}},
		{path: "/api/v1/write", name: "prom_write", access: byRoute, place: byRows, fail: promError(promapi.WriteText), methods: methods{"POST": h.promWrite}},
		{path: "/api/v1/import", name: "import_write", access: byRoute, place: byRows, methods: methods{"POST": h.importLines}},
		{path: textPath, name: "import_write", access: byRoute, place: byRows, methods: methods{"POST": h.importText, "PUT": h.importText}},
		{path: textPath + "/", name: "import_write", access: byRoute, place: byRows, methods: methods{"POST": h.importText, "PUT": h.importText}},
		{path: "/api/v1/export", name: "export", access: byRoute, place: byStatement, gzip: true, reads: true, methods: methods{"GET": h.exportLines, "POST": h.exportLines}, absent: h.opt.PromQL == nil},
		{path: "/api/v1/prom/read", name: "prom_read", access: byRoute, place: byStatement, reads: true, methods: methods{"POST": h.named(h.promRead)}, absent: h.opt.PromQL == nil},
		{path: "/api/v1/read", name: "prom_read", access: byRoute, place: byStatement, reads: true, fail: promError(promapi.WriteText), methods: methods{"POST": h.promRead}, absent: h.opt.PromQL == nil},
		{path: "/api/boards", name: "boards", access: byRoute, place: byMethod, gzip: true, methods: methods{"GET": h.boards, "POST": h.boards, "OPTIONS": status(http.StatusOK)}, absent: h.opt.Boards == nil},
		{path: "/api/boards/", name: "boards", access: byRoute, place: byMethod, gzip: true, methods: methods{"GET": h.boards, "PUT": h.boards, "DELETE": h.boards, "OPTIONS": status(http.StatusOK)}, absent: h.opt.Boards == nil},
		{path: "/ping", name: "ping", access: openPing, place: query.ThisNode, methods: methods{"GET": h.ping, "HEAD": h.ping}},
		{path: "/status", name: "status", access: openPing, place: query.ThisNode, methods: methods{"GET": status(http.StatusNoContent), "HEAD": status(http.StatusNoContent)}},
		{path: "/health", name: "health", access: openPing, place: query.ThisNode, methods: methods{"GET": h.health, "HEAD": h.health, "OPTIONS": status(http.StatusOK)}},
		{path: "/ready", name: "ready", access: openPing, place: query.ThisNode, fail: errorV2, methods: methods{"GET": h.ready}},
		{path: "/metrics", name: "metrics", access: LoggedIn, place: query.ThisNode, methods: methods{"GET": other(promhttp.HandlerFor(h.opt.Registry, promhttp.HandlerOpts{}))}, absent: h.opt.Registry == nil},
		{path: "/debug/vars", name: "debug_vars", access: AdminOnly, place: query.ThisNode, methods: methods{"GET": h.debugVars}},
		{path: "/debug/requests", name: "debug_requests", access: AdminOnly, place: query.ThisNode, methods: methods{"GET": h.debugRequests}},
		{path: "/debug/pprof/all", name: "debug_pprof", access: AdminOnly, place: query.ThisNode, methods: methods{"GET": h.debugArchive}, absent: noPprof},
		{path: "/debug/pprof", name: "debug_pprof", access: AdminOnly, place: query.ThisNode, methods: methods{"GET": other(http.RedirectHandler(debug.ProfilePath, http.StatusMovedPermanently))}, absent: noPprof},
		{path: debug.ProfilePath, name: "debug_pprof", access: AdminOnly, place: query.ThisNode, reads: true, methods: methods{"GET": other(http.HandlerFunc(debug.Profile)), "POST": other(http.HandlerFunc(debug.Profile))}, absent: noPprof},
	}
	for _, path := range promapi.HealthPaths {
		routes = append(routes, route{path: path, name: "health", access: openPing, place: query.ThisNode, methods: methods{"GET": h.health, "HEAD": h.health}})
	}
	for _, path := range otlpPaths {
		routes = append(routes, route{path: path, name: "otlp_write", access: byRoute, place: byRows, methods: methods{"POST": h.otlpWrite}, fail: otlpError})
		for _, other := range []string{"logs", "traces"} {
			routes = append(routes, route{path: strings.TrimSuffix(path, "metrics") + other, name: "otlp_other", access: byRoute, place: query.ThisNode, methods: methods{"POST": otlpMetricsOnly}, fail: otlpError})
		}
	}
	routes = append(routes, h.promRoutes()...)
	for _, m := range h.opt.Mounts {
		routes = append(routes, route{path: m.Prefix, name: m.Name, access: m.Access, place: cmp.Or(m.Place, query.ThisNode), reads: m.Reads, any: mounted(m)})
	}
	return slices.DeleteFunc(routes, func(rt route) bool { return rt.absent })
}

// mounted returns the handle of a Mount.
func mounted(m Mount) handle {
	if m.Serve == nil {
		return other(m.Handler)
	}
	return func(w *response, r *request) error {
		m.Serve(w, r.Request, r.user)
		return nil
	}
}

// other returns the handle of a handler of another package.
func other(h http.Handler) handle {
	return func(w *response, r *request) error {
		h.ServeHTTP(w, r.Request)
		return nil
	}
}

// status returns a handle that answers with a status only.
func status(code int) handle {
	return func(w *response, _ *request) error {
		w.WriteHeader(code)
		return nil
	}
}

func fluxDisabled(*response, *request) error { return errFluxDisabled }
