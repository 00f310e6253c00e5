package graphite

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
	"time"

	"tsdbd/services/input"
	"tsdbd/services/input/inputtest"
)

func listen(t *testing.T, s *inputtest.Store, protocol string) *input.Service {
	t.Helper()
	in, err := Listen(Options{
		Options: input.Options{Writer: s, Database: "d"}, Address: "127.0.0.1:0", Protocol: protocol,
		Templates: []string{"servers.* .host.measurement*"}, Tags: []string{"dc=one"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = in.Close(t.Context()) }) // it is closed in the test
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

func TestBothProtocols(t *testing.T) {
	const text = "servers.a.cpu.load 1.5 10\nbad\r\n\nother 2 11\r\nnan NaN 12\nlast;x=y 3 13"
	const want = "cpu.load,dc=one,host=a value=1.5 10000000000\nlast,dc=one,x=y value=3 13000000000\nother,dc=one value=2 11000000000"
	for _, protocol := range []string{"tcp", "udp"} {
		s := &inputtest.Store{}
		in := listen(t, s, protocol)
		c, err := net.Dial(protocol, in.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := c.Close(); err != nil {
			t.Fatal(err)
		}
		receive(t, in, int64(len(text)))
		for in.Counts().Connections.Load() > 0 {
			time.Sleep(time.Millisecond) // its last line is being read
		}
		if err := in.Close(t.Context()); err != nil {
			t.Error(err)
		}
		if got := s.Points(); got != want {
			t.Errorf("%s: %s", protocol, got)
		}
		n := in.Counts()
		if n.BadPoints.Load() != 2 || n.NotANumber.Load() != 1 || n.Points.Load() != 3 || n.Dropped.Load() != 0 {
			t.Errorf("%s: %d bad, %d not numbers, %d points", protocol, n.BadPoints.Load(), n.NotANumber.Load(), n.Points.Load())
		}
	}
}

// Many senders at a time lose nothing over TCP, whatever the batches' size.
func TestManySenders(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("python3 is not installed")
	}
	s := &inputtest.Store{}
	in := listen(t, s, "tcp")
	_, port, err := net.SplitHostPort(in.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf(`
import socket, threading
def send(n):
    with socket.create_connection(("127.0.0.1", %s)) as c:
        for i in range(2000):
            c.sendall(b"a.s%%d %%d %%d\n" %% (n, i, 1000 + i))
threads = [threading.Thread(target=send, args=(n,)) for n in range(8)]
for t in threads: t.start()
for t in threads: t.join()
`, port)
	if out, err := exec.Command(python, "-c", script).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	for begin := time.Now(); in.Counts().Points.Load() < 16000 && time.Since(begin) < time.Minute; {
		time.Sleep(time.Millisecond)
	}
	if err := in.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if got, batches := s.Count(); got != 16000 || batches < 4 {
		t.Errorf("%d points in %d batches", got, batches)
	}
	if !strings.Contains(s.Points(), "a.s7,dc=one value=1999 2999000000000") {
		t.Error("the last point is not there")
	}
}

func BenchmarkLine(b *testing.B) {
	p := newParser(b, "", []string{"dc=one"}, "servers.* .host.measurement*")
	batcher := input.NewBatcher(input.Options{Writer: &inputtest.Store{Fail: func() error { return fmt.Errorf("not kept") }}, Database: "d"})
	defer batcher.Close(b.Context())
	line := []byte("servers.host17.cpu.load.average 1.25 1700000000\n")
	const most = 500
	points := make([]input.Point, 0, most)
	b.SetBytes(int64(len(line)))
	for b.Loop() {
		if points = p.add(points, line, testNow, batcher.Counts()); len(points) == most {
			batcher.Add(points)
			points = points[:0]
		}
	}
}

// TestStatistics holds the figures of SHOW STATS by their names in InfluxDB.
func TestStatistics(t *testing.T) {
	figures := listen(t, &inputtest.Store{}, "tcp").Statistics()
	for _, name := range strings.Fields("batchesTx batchesTxFail pointsTx bytesRx pointsRx pointsParseFail pointsNaNFail connsActive connsHandled") {
		if figures[name] != int64(0) {
			t.Errorf("%s is %v", name, figures[name])
		}
	}
}
