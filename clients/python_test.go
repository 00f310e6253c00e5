package clients

import (
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/internal/testkit/apptest"
)

// python returns the interpreter that has the influxdb package.
func python(s *suite) string {
	s.t.Helper()
	for _, name := range []string{"/usr/bin/python3", "python3"} {
		if out, err := exec.Command(name, "-c", "import influxdb; print(influxdb.__version__)").Output(); err == nil {
			s.version = strings.TrimSpace(string(out))
			return name
		}
	}
	s.skip("python3-influxdb is not installed (apt-get install python3-influxdb)")
	return ""
}

// TestPython uses python3-influxdb with a script of ours.
func TestPython(t *testing.T) {
	s := newSuite(t, "Python influxdb")
	interpreter := python(s)
	server := start(t)
	host, port := address(server.URL)
	out, errs, err := command(t, t.TempDir(), nil, "", interpreter, filepath.Join(root(), "clients", "python", "client.py"), host, port)
	s.check("run", err)
	s.counted(errs + out)
}

// TestPythonLibrary runs the library's own tests of a server.
func TestPythonLibrary(t *testing.T) {
	s := newSuite(t, "Python influxdb, own tests")
	s.alone()
	interpreter := python(s)
	if err := exec.Command(interpreter, "-c", "import influxdb.tests.server_tests.base").Run(); err != nil {
		s.skip("this python3-influxdb has no tests")
	}
	out, errs, err := command(t, t.TempDir(), nil, "", interpreter, filepath.Join(root(), "clients", "python", "library.py"), apptest.Binary(t))
	s.check("run", err)
	s.counted(errs + out)
}
