package collectd

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

// TestRealSender receives from collectd itself, at each level of protection.
func TestRealSender(t *testing.T) {
	program, err := exec.LookPath("collectd")
	if err != nil {
		program = "/usr/sbin/collectd"
	}
	const plugins, typesDB = "/usr/lib/collectd", "/usr/share/collectd/types.db"
	for _, path := range []string{program, plugins + "/network.so", plugins + "/load.so", typesDB} {
		if _, err := os.Stat(path); err != nil {
			t.Skipf("collectd is not installed: %v", err)
		}
	}
	types, err := ReadTypes(typesDB, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, level := range []string{"None", "Sign", "Encrypt"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel() // most of it is waiting
			s := &inputtest.Store{}
			want, err := ParseLevel(level)
			if err != nil {
				t.Fatal(err)
			}
			in, err := Listen(Options{
				Options: input.Options{Writer: s, Database: "d"}, Address: "127.0.0.1:0", Join: true,
				Types: types, Level: want, Users: map[string]string{"alice": "sesame"},
			})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = in.Close(context.Background()) }()
			_, port, err := net.SplitHostPort(in.Addr().String())
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			config := filepath.Join(dir, "collectd.conf")
			text := fmt.Sprintf(`Hostname "sender"
FQDNLookup false
Interval 0.1
BaseDir %q
PIDFile "%s/pid"
PluginDir %q
TypesDB %q
LoadPlugin load
LoadPlugin network
<Plugin network>
  MaxPacketSize 1024
  <Server "127.0.0.1" "%s">
    SecurityLevel %s
    Username "alice"
    Password "sesame"
  </Server>
</Plugin>
`, dir, dir, plugins, typesDB, port, level)
			if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var said strings.Builder
			cmd := exec.Command(program, "-f", "-C", config)
			cmd.Stdout, cmd.Stderr = &said, &said
			if err := cmd.Start(); err != nil {
				t.Fatal(err)
			}
			for begin := time.Now(); in.Counts().Points.Load() < 3 && time.Since(begin) < time.Minute; {
				time.Sleep(10 * time.Millisecond)
			}
			_ = cmd.Process.Signal(os.Interrupt)
			_ = cmd.Wait()
			if err := in.Close(t.Context()); err != nil {
				t.Error(err)
			}
			first, _, _ := strings.Cut(s.Points(), "\n")
			if !strings.HasPrefix(first, "load,host=sender,type=load shortterm=") || !strings.Contains(first, ",longterm=") {
				t.Errorf("%q\n%s", first, said.String())
			}
			if in.Counts().BadPoints.Load() > 0 {
				t.Errorf("%d bad packets", in.Counts().BadPoints.Load())
			}
		})
	}
}
