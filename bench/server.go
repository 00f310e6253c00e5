package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"tsdbd/internal/proc"
)

// product is a server program that can be measured.
type product struct {
	name, path, version string
	// settings says what differs from the defaults.
	settings string
	ready    string // path that answers when the server serves
	metrics  bool   // speaks MetricsQL, not InfluxQL
	log      string // directory of its write-ahead log below that of its data; empty: none
	limit    bool   // not a database: what the machine allows
	command  func(path, address, dir string) (args, env []string)
}

// versionNumber finds the number in what a program says of its version.
var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// title is the product's name with the number of its version.
func (p *product) title() string {
	return strings.TrimSpace(p.name + " " + versionNumber.FindString(p.version))
}

// findProduct returns a product by name, false if it is not installed.
func findProduct(name, tsdbd string) (*product, bool, error) {
	var p *product
	switch name {
	case "tsdbd":
		p = &product{
			name: name, path: tsdbd, ready: "/ping", log: "wal",
			settings: "TSDBD_DATA_COMPACT_AFTER=5s TSDBD_DATA_FLUSH_IDLE=3s, so that a shard at rest is compacted while the run waits",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"-data", dir, "-http", address}, []string{"TSDBD_DATA_COMPACT_AFTER=5s", "TSDBD_DATA_FLUSH_IDLE=3s"}
			},
		}
	case "influxd":
		p = &product{
			name: name, path: "influxd", ready: "/ping", log: "wal",
			settings: "index-version=tsi1, cache-snapshot-write-cold-duration=5s and compact-full-write-cold-duration=5s for the same reason, monitor store and request log off",
			command: func(_, address, dir string) (args, env []string) {
				rpc, _ := freeAddress()
				return []string{"run", "-config", os.DevNull}, []string{
					"INFLUXDB_REPORTING_DISABLED=true", "INFLUXDB_BIND_ADDRESS=" + rpc, "INFLUXDB_HTTP_BIND_ADDRESS=" + address,
					"INFLUXDB_META_DIR=" + filepath.Join(dir, "meta"), "INFLUXDB_DATA_DIR=" + filepath.Join(dir, "data"), "INFLUXDB_DATA_WAL_DIR=" + filepath.Join(dir, "wal"),
					"INFLUXDB_DATA_INDEX_VERSION=tsi1", "INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION=5s", "INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION=5s",
					"INFLUXDB_MONITOR_STORE_ENABLED=false", "INFLUXDB_HTTP_LOG_ENABLED=false",
				}
			},
		}
	case "victoria-metrics":
		p = &product{
			name: name, path: name, ready: "/health", metrics: true,
			settings: "-retentionPeriod=100y and -search.maxUniqueTimeseries=3000000, without which it drops the workloads' data or refuses to count it; it acknowledges from memory, without a log",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + address, "-retentionPeriod=100y", "-search.maxUniqueTimeseries=3000000"}, nil
			},
		}
	case "null-wal":
		self, err := os.Executable()
		if err != nil {
			return nil, false, err
		}
		p = &product{
			name: name, path: self, ready: "/ping", limit: true,
			settings: "no database: appends bodies to a file, one fdatasync for those that wait together",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"null-wal", "-listen", address, "-data", dir}, nil
			},
		}
	default:
		return nil, false, fmt.Errorf("unknown server %q: it is tsdbd, influxd, victoria-metrics or null-wal", name)
	}
	path, err := exec.LookPath(p.path)
	if err != nil {
		if name == "tsdbd" {
			return nil, false, err
		}
		return nil, false, nil
	}
	p.path = path
	p.version = versionOf(p)
	return p, true, nil
}

// versionOf asks the program, or else the package manager.
func versionOf(p *product) string {
	number := regexp.MustCompile(`\d+\.\d+`)
	try := [][]string{{p.path, "version"}, {p.path, "-version"}, {"dpkg-query", "-W", "-f", "${Version}", filepath.Base(p.path)}}
	switch {
	case p.limit:
		return "-"
	case p.metrics:
		try = try[1:] // it takes a word for nothing, and serves
	}
	for _, args := range try {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		text := strings.TrimSpace(string(out))
		if err == nil && number.MatchString(text) && !strings.Contains(text, "\n") {
			return text
		}
	}
	return "unknown"
}

// process is a server that runs.
type process struct {
	*product
	url, dir string
	cmd      *exec.Cmd
	output   *os.File
	done     chan struct{} // closed when it has ended
	err      error         // of Wait, once done
}

// freeAddress returns an address of this machine that nothing listens on.
func freeAddress() (string, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return l.Addr().String(), l.Close()
}

// start starts a product on the data in dir/data and waits until it serves.
func start(ctx context.Context, p *product, dir string) (*process, error) {
	address, err := freeAddress()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	output, err := os.OpenFile(filepath.Join(dir, "output"), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, err
	}
	args, env := p.command(p.path, address, data)
	s := &process{product: p, url: "http://" + address, dir: data, output: output, done: make(chan struct{})}
	s.cmd = exec.Command(p.path, args...)
	s.cmd.Env = append(os.Environ(), env...)
	s.cmd.Stdout, s.cmd.Stderr = output, output
	// Should this process be killed, so is the server.
	proc.Prepare(s.cmd)
	if err := s.cmd.Start(); err != nil {
		return nil, errors.Join(fmt.Errorf("start %s: %w", p.name, err), output.Close())
	}
	go func() {
		s.err = s.cmd.Wait()
		close(s.done)
	}()
	if err := s.wait(ctx); err != nil {
		text, _ := os.ReadFile(output.Name())
		return nil, errors.Join(fmt.Errorf("start %s: %w: %s", p.name, err, bytes.TrimSpace(text[max(0, len(text)-2000):])), s.stop())
	}
	return s, nil
}

func (s *process) wait(ctx context.Context) error {
	c := newClient(s.url, "", 1)
	defer c.close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for {
		if _, err := c.do(ctx, http.MethodGet, s.ready, nil, nil); err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.done:
			return fmt.Errorf("it ended: %w", s.err)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

// stop asks the server to end, and ends it if it has not after a minute.
func (s *process) stop() error {
	_ = proc.Stop(s.cmd)
	var err error
	select {
	case <-s.done:
	case <-time.After(time.Minute):
		err = errors.Join(fmt.Errorf("stop %s: it did not end in a minute", s.name), s.cmd.Process.Kill())
		<-s.done
	}
	return errors.Join(err, s.output.Close())
}

func (s *process) pid() int { return s.cmd.Process.Pid }

// logBytes returns what the write-ahead log takes on disk.
func (s *process) logBytes() int64 {
	if s.log == "" {
		return 0
	}
	return diskBytes(filepath.Join(s.dir, s.log))
}
