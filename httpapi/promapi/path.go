package promapi

import (
	"net/url"
	"slices"
	"strings"
)

// prefix begins the paths of Prometheus' API that name a database:
// /prometheus/DB[/RP]/api/v1/... and /prometheus/DB[/RP]/federate. /prometheus/api/v1/...
// names none.
const prefix = "/prometheus/"

// HealthPaths are the paths where Prometheus says whether it works. Clients such as
// Perses ask below the URL of their data source.
var HealthPaths = []string{"/-/healthy", "/-/ready"}

// federatePath is the path of the one endpoint that is not below /api/v1/.
const federatePath = "/federate"

// CutPrefix divides a path into the names in its prefix and the path of a route.
// Slashes in names are escaped.
func CutPrefix(u *url.URL) (path, db, rp string) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), prefix)
	if !ok {
		return u.Path, "", ""
	}
	var names [2]string
	for i := range 3 {
		if path := "/" + rest; path == federatePath || slices.Contains(HealthPaths, path) {
			return path, names[0], names[1]
		}
		if path, ok := strings.CutPrefix(rest, "api/v1/"); ok {
			if path, err := url.PathUnescape("/api/v1/" + path); err == nil {
				return path, names[0], names[1]
			}
		}
		name, more, found := strings.Cut(rest, "/")
		name, err := url.PathUnescape(name)
		if !found || err != nil || name == "" || i == 2 {
			break
		}
		names[i], rest = name, more
	}
	return u.Path, "", ""
}
