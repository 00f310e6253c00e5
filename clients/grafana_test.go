package clients

import (
	"fmt"
	"os"
	"regexp"
	"strconv"
	"testing"
)

// TestGrafana asks the queries of Grafana's dashboards, which are a test of the
// server's module, beside a real InfluxDB where there is one.
func TestGrafana(t *testing.T) {
	s := newSuite(t, "Grafana's queries")
	s.alone()
	s.version = "4 to 12"
	out, errs, err := command(t, root(), append(os.Environ(), "TSDBD_PEERS=1"), "", "go", "test", "-count=1", "-v", "-run", "^Test(Peer)?Dashboards$", "./internal/testkit/apptest")
	for _, m := range regexp.MustCompile(`(\d+) passed, (\d+) failed`).FindAllStringSubmatch(out, -1) {
		passed, _ := strconv.Atoi(m[1])
		failed, _ := strconv.Atoi(m[2])
		s.passed += passed
		s.failed += failed
	}
	if err != nil || s.passed == 0 {
		s.check("run", fmt.Errorf("%w\n%s%s", err, out, errs))
	}
}
