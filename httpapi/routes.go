package httpapi

import (
	"net/http"
	"slices"
	"strings"

	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// methods are the handlers of a route by method.
type methods = map[string]http.HandlerFunc

// addRoutes fills the table of routes.
func (h *Handler) addRoutes() {
	h.add("/query", "query", byRoute, true, methods{"GET": h.query, "POST": h.query, "OPTIONS": preflight})
	h.add("/write", "write", byRoute, true, methods{"POST": h.writeV1, "OPTIONS": preflight})
	h.add("/api/v2/write", "v2_write", byRoute, true, methods{"POST": h.writeV2, "OPTIONS": preflight})
	h.add("/api/v2/delete", "v2_delete", byRoute, false, methods{"POST": h.deleteV2})
	h.add("/api/v2/query", "v2_query", byRoute, true, methods{"POST": fluxDisabled, "OPTIONS": preflight})
	h.add("/ping", "ping", openPing, false, methods{"GET": h.ping, "HEAD": h.ping})
	h.add("/status", "status", openPing, false, methods{"GET": noContent, "HEAD": noContent})
	h.add("/health", "health", openPing, false, methods{"GET": h.health, "HEAD": h.health, "OPTIONS": preflight})
	if h.opt.Registry != nil {
		show := promhttp.HandlerFor(h.opt.Registry, promhttp.HandlerOpts{Registry: nil})
		h.add("/metrics", "metrics", loggedIn, false, methods{"GET": show.ServeHTTP})
	}
	h.add("/api/v1/prom/write", "prom_write", byRoute, false, methods{"POST": h.promWrite})
	h.add("/api/v1/prom/read", "prom_read", byRoute, true, methods{"POST": h.promRead})
	if h.opt.Explorer != nil && h.opt.Catalog != nil {
		h.add("/api/v1/status/tsdb", "tsdb_status", byRoute, true, methods{"GET": h.tsdbStatus})
	}
	if h.opt.Catalog != nil {
		h.add("/api/v2/buckets", "v2_buckets", byRoute, false, methods{"GET": h.listBuckets, "POST": h.createBucket})
		h.addBelow("/api/v2/buckets/", &route{name: "v2_buckets", access: byRoute, any: h.bucket})
	}
	h.addDebugRoutes()
	if h.opt.Admin != nil {
		h.addBelow(AdminPrefix, &route{name: "admin", access: adminOnly, any: h.opt.Admin.ServeHTTP})
	}
}

// prefixRoute is what stands at all paths that begin alike.
type prefixRoute struct {
	prefix string
	route  *route
}

// route returns what stands at a path, or nil.
func (h *Handler) route(path string) *route {
	if rt := h.routes[path]; rt != nil {
		return rt
	}
	for _, b := range h.below {
		if strings.HasPrefix(path, b.prefix) {
			return b.route
		}
	}
	return nil
}

func (h *Handler) add(path, name string, need access, gzip bool, m methods) {
	h.routes[path] = newRoute(name, need, gzip, m)
}

// addBelow adds a route for all paths that begin with prefix.
func (h *Handler) addBelow(prefix string, rt *route) {
	h.below = append(h.below, prefixRoute{prefix, rt})
}

func newRoute(name string, need access, gzip bool, m methods) *route {
	allow := make([]string, 0, len(m))
	for method := range m {
		allow = append(allow, method)
	}
	slices.Sort(allow)
	return &route{name: name, access: need, methods: m, allow: strings.Join(allow, ", "), gzip: gzip}
}
