package apptest

import (
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"
)

// inputAddress waits for the log line of an input and returns its address.
func (s *Server) inputAddress(kind string) string {
	s.t.Helper()
	line := regexp.MustCompile(`msg=receiving input=` + kind + ` address=(\S+)`)
	for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(time.Millisecond) {
		if m := line.FindStringSubmatch(s.Log()); m != nil {
			return m[1]
		}
	}
	s.t.Fatalf("no %s input: %s", kind, s.Log())
	return ""
}

// TestInputs sends to every input of a real server and looks for the points, in
// the figures too, and after a restart.
func TestInputs(t *testing.T) {
	t.Parallel()
	types := TempFile(t, "load shortterm:GAUGE:0:5000\n")
	config := TempFile(t, fmt.Sprintf(`
[[udp]]
enabled = true
bind-address = "127.0.0.1:0"
precision = "s"
batch-timeout = "10ms"
[[udp]] # is off
[[graphite]]
enabled = true
bind-address = "127.0.0.1:0"
database = "g"
retention-policy = "short"
templates = ["servers.* .host.measurement*"]
tags = ["dc=one"]
batch-timeout = "1h" # the stop writes
[[opentsdb]]
enabled = true
bind-address = "127.0.0.1:0"
[[collectd]]
enabled = true
bind-address = "127.0.0.1:0"
typesdb = %q
batch-timeout = "10ms"
`, types))
	dir := t.TempDir()
	s := StartOn(t, dir, "-config", config)
	send := func(network, kind, text string) {
		t.Helper()
		c, err := net.Dial(network, s.inputAddress(kind))
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	// The first query of each waits for what came over UDP.
	find := func(db, q, want string) {
		t.Helper()
		got := ""
		for begin := time.Now(); time.Since(begin) < time.Minute; time.Sleep(5 * time.Millisecond) {
			if got = s.Query(db, q); strings.Contains(got, want) {
				return
			}
		}
		t.Errorf("%s: %s, want %s", q, got, want)
	}
	send("udp", "udp", "cpu,host=a v=1i 10\nbad\ncpu,host=a v=2i 20\n")
	find("udp", "SELECT * FROM cpu", `["time","host","v"],"values":[[10000000000,"a",1],[20000000000,"a",2]]`)
	send("udp", "collectd", "\x00\x02\x00\x09load\x00\x00\x04\x00\x09load\x00\x00\x01\x00\x0c\x00\x00\x00\x00\x00\x00\x00\x07\x00\x06\x00\x0f\x00\x01\x01\x00\x00\x00\x00\x00\x00\xe0\x3f")
	find("collectd", "SELECT * FROM load_shortterm", `["time","type","value"],"values":[[7000000000,"load",0.5]]`)
	resp, err := http.Post("http://"+s.inputAddress("opentsdb")+"/api/put", "application/json", strings.NewReader(`{"metric":"m","timestamp":5,"value":1,"tags":{"a":"b"}}`))
	if err != nil || resp.StatusCode != 204 {
		t.Fatal(resp, err)
	}
	_ = resp.Body.Close()
	if got := s.Query("opentsdb", "SELECT * FROM m"); !strings.Contains(got, `["time","a","value"],"values":[[5000000000,"b",1]]`) {
		t.Error("a POST is answered before its point can be read: ", got)
	}
	send("tcp", "graphite", "servers.h.cpu.load 1.5 30\n")

	// A batch is counted when it is written, after it can be read.
	for _, want := range []string{
		`{"name":"udp","tags":{"bind":"127.0.0.1:0"},"columns":["batchesTx","batchesTxFail","bytesRx","pointsParseFail","pointsRx","pointsTx","readFail"],"values":[[1,0,42,1,2,2,0]]}`,
		`"name":"graphite","tags":{"bind":"127.0.0.1:0","proto":"tcp"}`, `"name":"opentsdb"`, `"name":"collectd"`,
	} {
		find("", "SHOW STATS", want)
	}
	for begin := time.Now(); ; time.Sleep(5 * time.Millisecond) {
		_, metrics := s.as('n', "GET", "/metrics", nil)
		if strings.Contains(metrics, `tsdbd_input_points_total{bind="127.0.0.1:0",input="graphite",protocol="tcp"} 1`) {
			break
		}
		if time.Since(begin) > time.Minute {
			t.Fatal("the graphite point is not counted")
		}
	}
	s.Stop()

	s = StartOn(t, dir)
	if got := s.Query("g", `SELECT * FROM short."cpu.load"`); !strings.Contains(got, `["time","dc","host","value"],"values":[[30000000000,"one","h",1.5]]`) {
		t.Errorf("the stop did not write: %s", got)
	}
}

// Inputs can be made by the environment alone, are warned of when others reach
// them, and one that cannot be opened ends the start.
func TestInputsByEnvironment(t *testing.T) {
	t.Setenv("TSDBD_HTTP_AUTH_ENABLED", "true")
	t.Setenv("TSDBD_GRAPHITE_0_ENABLED", "true")
	t.Setenv("TSDBD_GRAPHITE_0_BIND_ADDRESS", ":0")
	t.Setenv("TSDBD_GRAPHITE_0_TEMPLATES", "a.* .measurement x=1,y=2;measurement*")
	s := Start(t)
	s.inputAddress("graphite")
	if !strings.Contains(s.Log(), "an input takes no logins") {
		t.Error("an open door is not warned of: ", s.Log())
	}
	s.Stop()
}

// An OpenTSDB input speaks TLS if it is told to, with a certificate that SIGHUP
// reads again.
func TestInputWithTLS(t *testing.T) {
	dir := t.TempDir()
	cert, key := writeCertificate(t, dir, 1)
	t.Setenv("TSDBD_OPENTSDB_0_ENABLED", "true")
	t.Setenv("TSDBD_OPENTSDB_0_BIND_ADDRESS", "127.0.0.1:0")
	t.Setenv("TSDBD_OPENTSDB_0_TLS_ENABLED", "true")
	t.Setenv("TSDBD_OPENTSDB_0_CERTIFICATE", cert)
	t.Setenv("TSDBD_OPENTSDB_0_PRIVATE_KEY", key)
	s := StartOn(t, filepath.Join(dir, "data"))
	address := s.inputAddress("opentsdb")
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}}}
	resp, err := client.Post("https://"+address+"/api/put", "application/json", strings.NewReader(`{"metric":"m","timestamp":5,"value":1}`))
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != 204 {
		t.Error(resp.Status)
	}
	if got := s.Query("opentsdb", "SELECT * FROM m"); !strings.Contains(got, "[5000000000,1]") {
		t.Error(got)
	}
	if serial, err := dial("https://"+address, &tls.Config{MaxVersion: tls.VersionTLS11}); err == nil {
		t.Errorf("TLS 1.1 is spoken, certificate %d", serial)
	}
	writeCertificate(t, dir, 2)
	s.Reload("configuration reloaded")
	if serial, err := dial("https://"+address, &tls.Config{}); err != nil || serial != 2 {
		t.Errorf("certificate %d %v", serial, err)
	}
	s.Stop()
}
