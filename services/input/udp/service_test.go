package udp

import (
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

func listen(t *testing.T, s *inputtest.Store, unit int64) *input.Service {
	t.Helper()
	in, err := Listen(Options{Options: input.Options{Writer: s, Database: "d"}, Address: "127.0.0.1:0", ReadBuffer: 1 << 16, Unit: unit})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := in.Close(t.Context()); err != nil && !strings.Contains(err.Error(), "closed") {
			t.Error(err)
		}
	})
	return in
}

// receive waits until the input has received so many bytes.
func receive(t *testing.T, in *input.Service, bytes int64) {
	t.Helper()
	for begin := time.Now(); in.Counts().Bytes.Load() < bytes; time.Sleep(time.Millisecond) {
		if time.Since(begin) > time.Minute {
			t.Fatalf("%d bytes received, want %d", in.Counts().Bytes.Load(), bytes)
		}
	}
}

func TestPackets(t *testing.T) {
	s := &inputtest.Store{}
	in := listen(t, s, int64(time.Second))
	c, err := net.Dial("udp", in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	total := int64(0)
	for _, packet := range []string{"m,a=b v=1,s=\"x y\" 1\nnot a point\nm v=2i 2\n", "", "m v=3 3", "# nothing"} {
		if _, err := c.Write([]byte(packet)); err != nil {
			t.Fatal(err)
		}
		total += int64(len(packet))
	}
	receive(t, in, total)
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.Points(); got != "m v=2 2000000000\nm v=3 3000000000\nm,a=b v=1,s=\"x y\" 1000000000" {
		t.Error(got)
	}
	if n := in.Counts(); n.BadPoints.Load() != 1 || n.Points.Load() != 3 || n.Written.Load() != 3 {
		t.Errorf("%+v", n)
	}
}

// TestShellSends sends as people do.
func TestShellSends(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("bash is not installed")
	}
	s := &inputtest.Store{}
	in := listen(t, s, 1)
	_, port, err := net.SplitHostPort(in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command(bash, "-c", "echo 'cpu,host=a load=0.5 1' > /dev/udp/127.0.0.1/"+port).CombinedOutput(); err != nil {
		t.Skipf("bash cannot send: %s", out)
	}
	receive(t, in, 22)
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got := s.Points(); got != "cpu,host=a load=0.5 1" {
		t.Error(got)
	}
}

func TestListenFailures(t *testing.T) {
	for _, address := range []string{"127.0.0.1:99999", "nonsense", "192.0.2.1:1"} {
		if in, err := Listen(Options{Options: input.Options{Writer: &inputtest.Store{}, Database: "d"}, Address: address}); err == nil {
			t.Errorf("%s is listened on", address)
			_ = in.Close(t.Context())
		}
	}
}
