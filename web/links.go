package web

import (
	"net/http"
	"strings"
)

// LinkPaths are the paths of the pages of Prometheus and VictoriaMetrics, and one that people
// try. Links, such as those of vmalert, lead to the page, which reads their parameters.
var LinkPaths = []string{"/graph", "/vmui", "/vmui/", "/ui"}

// Link leads to the page with the parameters behind its #. A link of vmui has them there
// already, and the browser keeps them.
func Link(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		return
	}
	// The page may be below a prefix of a proxy, so the way there is relative.
	to := "./" + strings.Repeat("../", strings.Count(r.URL.EscapedPath(), "/")-1)
	if r.URL.RawQuery != "" {
		to += "#/?" + r.URL.RawQuery
	}
	w.Header().Set("Location", to)
	w.WriteHeader(http.StatusFound)
}
