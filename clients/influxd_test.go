package clients

import (
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

// influxd is a running InfluxDB.
type influxd struct {
	url, dir string
	rpc      string // the address for backups
	cmd      *exec.Cmd
}

// startInfluxd starts the installed influxd with its index in memory or, as
// "tsi1", in files; nil if there is none.
func startInfluxd(t *testing.T) *influxd {
	t.Helper()
	bin, err := exec.LookPath("influxd")
	if err != nil {
		return nil
	}
	dir, address, rpc := t.TempDir(), apptest.FreeAddress(t), apptest.FreeAddress(t)
	config := fmt.Sprintf("reporting-disabled = true\nbind-address = %q\n[meta]\ndir = %q\n[data]\ndir = %q\nwal-dir = %q\nindex-version = \"tsi1\"\ncache-snapshot-write-cold-duration = \"1s\"\n[monitor]\nstore-enabled = false\n[http]\nbind-address = %q\nlog-enabled = false\n",
		rpc, dir+"/meta", dir+"/data", dir+"/wal", address)
	file := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &influxd{url: "http://" + address, dir: dir, rpc: rpc, cmd: exec.Command(bin, "-config", file)}
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.stop)
	await(t, p.url+"/ping", http.StatusNoContent)
	return p
}

// stop ends the process in order.
func (p *influxd) stop() {
	if p.cmd.ProcessState == nil {
		_ = p.cmd.Process.Signal(syscall.SIGTERM)
		_ = p.cmd.Wait()
	}
}

// await waits until a URL answers with a status.
func await(t *testing.T, url string, status int) {
	t.Helper()
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		resp, err := http.Get(url)
		if err != nil {
			continue
		}
		_ = resp.Body.Close()
		if resp.StatusCode == status {
			return
		}
	}
	t.Fatalf("%s does not answer %d", url, status)
}
