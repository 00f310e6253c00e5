package clients

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestNode uses the npm packages influx and @influxdata/influxdb-client, which
// npm fetches into bin/node once.
func TestNode(t *testing.T) {
	s := newSuite(t, "node influx, influxdb-client")
	node := s.need("node", "apt-get install nodejs npm")
	npm := s.need("npm", "apt-get install npm")
	dir := filepath.Join(root(), "bin", "node")
	s.must(os.MkdirAll(dir, 0o755))
	for _, name := range []string{"package.json", "package-lock.json", "client.js"} {
		text, err := os.ReadFile(filepath.Join(root(), "clients", "node", name))
		s.must(err)
		s.must(os.WriteFile(filepath.Join(dir, name), text, 0o644))
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules", "influx")); err != nil {
		if out, errs, err := command(t, dir, nil, "", npm, "ci", "--no-audit", "--no-fund", "--ignore-scripts"); err != nil {
			s.skip("npm ci: %v\n%s%s", err, out, errs)
		}
	}
	text, err := os.ReadFile(filepath.Join(dir, "package.json"))
	s.must(err)
	var pkg struct{ Dependencies map[string]string }
	s.must(json.Unmarshal(text, &pkg))
	s.version = fmt.Sprint(pkg.Dependencies["influx"], ", ", pkg.Dependencies["@influxdata/influxdb-client"])
	server := start(t)
	host, port := address(server.URL)
	out, errs, err := command(t, dir, nil, "", node, "client.js", host, port)
	s.check("run", err)
	s.counted(errs + out)
}
