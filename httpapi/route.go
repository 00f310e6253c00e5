package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"tsdbd/query"
)

// handle is a handler. It writes the answer, or returns the error that is the answer.
type handle func(w *response, r *request) error

// methods are the handlers of a route by method.
type methods = map[string]handle

// failure answers with an error.
type failure func(w http.ResponseWriter, r *http.Request, err error)

// route is a row of the table of routes.
type route struct {
	path    string // a final slash: all paths that begin with it
	name    string // metric label
	access  Access
	place   query.Place // the node of a cluster that answers
	gzip    bool        // a 200 may be compressed
	reads   bool        // also POST changes nothing, or the handler calls checkPage
	methods methods
	any     handle  // serves all methods in place of methods
	fail    failure // answers with an error; nil: writeError
	absent  bool    // the options leave the route out
}

// route returns the route of a path: the one with the same path, or the one with the
// longest path that ends in a slash and begins the path. The route of / has no paths
// below it. It is nil if there is none.
func (h *Handler) route(path string) *route {
	rt := h.routes[path]
	for rt == nil && len(path) > 1 {
		path = path[:strings.LastIndexByte(path[:len(path)-1], '/')+1]
		if path != "/" {
			rt = h.routes[path]
		}
	}
	return rt
}

// changes reports whether a request of a method may change something.
func (rt *route) changes(method string) bool {
	return !rt.reads && method != http.MethodGet && method != http.MethodHead && method != http.MethodOptions
}

// allow returns the methods of a route for the header of a 405.
func (rt *route) allow() string {
	return strings.Join(slices.Sorted(maps.Keys(rt.methods)), ", ")
}
