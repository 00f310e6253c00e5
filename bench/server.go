package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
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
	// fresh is command for a server that is to keep in memory what it may; nil: command.
	fresh func(path, address, dir string) (args, env []string)
	// remoteWrite is the path for remote write, with the database; nil: none.
	remoteWrite func(db string) (path string, params url.Values)
	// remoteWrite2 says that it takes remote write 2.0.
	remoteWrite2 bool
}

// versionNumber finds the number in what a program says of its version.
var versionNumber = regexp.MustCompile(`\d+\.\d+(\.\d+)?`)

// title is the product's name with the number of its version.
func (p *product) title() string {
	return strings.TrimSpace(p.name + " " + versionNumber.FindString(p.version))
}

// findProducts returns those of a list of NAME and NAME=PATH that are installed and of use.
func findProducts(list string, say func(string, ...any), of func(*product) bool) (out []*product, err error) {
	for _, text := range strings.Split(list, ",") {
		name, path, named := strings.Cut(text, "=")
		p, err := newProduct(name)
		if err != nil {
			return nil, err
		}
		if !of(p) {
			continue
		}
		if named {
			p.path = path
		}
		if p.path, err = exec.LookPath(p.path); err == nil {
			p.path, err = filepath.Abs(p.path)
		}
		switch {
		case err == nil:
			p.version = versionOf(p)
			out = append(out, p)
		case name == "tsdbd":
			return nil, err
		default:
			say("%s is left out: %v", name, err)
		}
	}
	return out, nil
}

// newProduct returns a product by name.
func newProduct(name string) (*product, error) {
	var p *product
	switch name {
	case "tsdbd":
		p = &product{
			name: name, path: name, ready: "/ping", log: "wal",
			settings: "TSDBD_DATA_COMPACT_AFTER=5s TSDBD_DATA_FLUSH_IDLE=3s, so that a shard at rest is compacted while the run waits",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"-data", dir, "-http", address}, []string{"TSDBD_DATA_COMPACT_AFTER=5s", "TSDBD_DATA_FLUSH_IDLE=3s"}
			},
			fresh: func(_, address, dir string) (args, env []string) {
				return []string{"-data", dir, "-http", address}, nil
			},
			remoteWrite:  func(db string) (string, url.Values) { return "/api/v1/prom/write", url.Values{"db": {db}} },
			remoteWrite2: true,
		}
	case "influxd":
		p = &product{
			name: name, path: "influxd", ready: "/ping", log: "wal",
			settings: "index-version=tsi1, cache-snapshot-write-cold-duration=5s and compact-full-write-cold-duration=5s for the same reason, monitor store and request log off",
			command: func(_, address, dir string) (args, env []string) {
				rpc, _ := proc.FreeAddress()
				return []string{"run", "-config", os.DevNull}, []string{
					"INFLUXDB_REPORTING_DISABLED=true", "INFLUXDB_BIND_ADDRESS=" + rpc, "INFLUXDB_HTTP_BIND_ADDRESS=" + address,
					"INFLUXDB_META_DIR=" + filepath.Join(dir, "meta"), "INFLUXDB_DATA_DIR=" + filepath.Join(dir, "data"), "INFLUXDB_DATA_WAL_DIR=" + filepath.Join(dir, "wal"),
					"INFLUXDB_DATA_INDEX_VERSION=tsi1", "INFLUXDB_DATA_CACHE_SNAPSHOT_WRITE_COLD_DURATION=5s", "INFLUXDB_DATA_COMPACT_FULL_WRITE_COLD_DURATION=5s",
					"INFLUXDB_MONITOR_STORE_ENABLED=false", "INFLUXDB_HTTP_LOG_ENABLED=false",
				}
			},
		}
	case "prometheus":
		p = &product{
			name: name, path: name, ready: "/-/ready", log: "wal",
			settings: "--storage.tsdb.retention.time=100y, remote write on; it acknowledges before its log is synced",
			command: func(_, address, dir string) (args, env []string) {
				return []string{
					"--config.file=" + os.DevNull, "--storage.tsdb.path=" + dir, "--web.listen-address=" + address, "--log.level=warn",
					"--storage.tsdb.retention.time=100y", "--web.enable-remote-write-receiver",
				}, nil
			},
			remoteWrite:  func(string) (string, url.Values) { return "/api/v1/write", nil },
			remoteWrite2: true,
		}
	case "victoria-metrics":
		p = &product{
			name: name, path: name, ready: "/health", metrics: true,
			settings: "-retentionPeriod=100y, -search.maxUniqueTimeseries=3000000 and -search.maxPointsPerTimeseries=50000, without which it drops the workloads' data or refuses some queries; it acknowledges from memory, without a log",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"-storageDataPath=" + dir, "-httpListenAddr=" + address, "-retentionPeriod=100y", "-search.maxUniqueTimeseries=3000000", "-search.maxPointsPerTimeseries=50000"}, nil
			},
			remoteWrite: func(string) (string, url.Values) { return "/api/v1/write", nil },
		}
	case "null-wal":
		self, err := os.Executable()
		if err != nil {
			return nil, err
		}
		p = &product{
			name: name, path: self, ready: "/ping", limit: true,
			settings: "no database: appends bodies to a file, one fdatasync for those that wait together",
			command: func(_, address, dir string) (args, env []string) {
				return []string{"null-wal", "-listen", address, "-data", dir}, nil
			},
		}
	default:
		return nil, fmt.Errorf("unknown server %q: it is tsdbd, influxd, prometheus, victoria-metrics or null-wal", name)
	}
	return p, nil
}

// versionOf asks the program, or else the package manager.
func versionOf(p *product) string {
	number := regexp.MustCompile(`\d+\.\d+`)
	try := [][]string{{p.path, "version"}, {p.path, "--version"}, {"dpkg-query", "-W", "-f", "${Version}", filepath.Base(p.path)}}
	switch {
	case p.limit:
		return "-"
	case p.metrics:
		try = try[1:] // it takes a word for nothing, and serves
	}
	for _, args := range try {
		out, err := exec.Command(args[0], args[1:]...).CombinedOutput()
		text, _, _ := strings.Cut(strings.TrimSpace(string(out)), "\n")
		if err == nil && number.MatchString(text) {
			return text
		}
	}
	return "unknown"
}

// process is a server that runs.
type process struct {
	*product
	*proc.Server
	url, dir string
}

// start starts a product on the data in dir/data and waits until it serves.
func start(ctx context.Context, p *product, dir string) (*process, error) {
	address, err := proc.FreeAddress()
	if err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		return nil, err
	}
	args, env := p.command(p.path, address, data)
	cmd := exec.Command(p.path, args...)
	cmd.Env = append(os.Environ(), env...)
	s := &process{product: p, url: "http://" + address, dir: data}
	if s.Server, err = proc.Launch(cmd, filepath.Join(dir, "output")); err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	c := newClient(s.url, "", 1)
	defer c.close()
	err = s.Await(ctx, func(ctx context.Context) error {
		_, err := c.do(ctx, http.MethodGet, s.ready, nil, nil)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("start %s: %w", p.name, err)
	}
	return s, nil
}

// stop asks the server to end. One that has ended otherwise than it should is
// no failure of a measurement.
func (s *process) stop() error {
	if err := s.Stop(time.Minute); err != nil && !errors.As(err, new(*exec.ExitError)) {
		return fmt.Errorf("stop %s: %w", s.name, err)
	}
	return nil
}

// logBytes returns what the write-ahead log takes on disk.
func (s *process) logBytes() int64 {
	if s.log == "" {
		return 0
	}
	return diskBytes(filepath.Join(s.dir, s.log))
}
