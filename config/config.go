package config

import (
	"cmp"
	"crypto/tls"
	"encoding"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/BurntSushi/toml"

	"tsdbd/httpapi"
	"tsdbd/httpapi/browser"
	"tsdbd/internal/certificate"
	"tsdbd/meta"
	"tsdbd/prom/engine"
	"tsdbd/query/downsample"
	"tsdbd/services/continuous"
	"tsdbd/services/monitor"
	"tsdbd/services/subscriber"
)

// Config is everything that can be set. Keys are the toml names; the
// environment spells them TSDBD_SECTION_KEY with underscores, and those of a
// list TSDBD_SECTION_0_KEY. A reload applies the keys with a reload tag: their
// change does not disturb requests under way.
type Config struct {
	Data       Data              `toml:"data"`
	HTTP       HTTP              `toml:"http"`
	TLS        TLS               `toml:"tls"`
	Cluster    Cluster           `toml:"cluster"`
	Query      Query             `toml:"query"`
	Prometheus Prometheus        `toml:"prometheus"`
	Meta       Meta              `toml:"meta"`
	Retention  Retention         `toml:"retention"`
	Cold       Cold              `toml:"cold"`
	Continuous ContinuousQueries `toml:"continuous_queries"`
	Subscriber Subscriber        `toml:"subscriber"`
	Monitor    Monitor           `toml:"monitor"`
	Log        Log               `toml:"log"`

	// Inputs other than HTTP, several of each kind. By default there are none.
	UDP      []UDP      `toml:"udp"`
	Graphite []Graphite `toml:"graphite"`
	Collectd []Collectd `toml:"collectd"`
	OpenTSDB []OpenTSDB `toml:"opentsdb"`
}

// Data is about the store.
type Data struct {
	Dir string `toml:"dir"`
	// WALSyncInterval 0 makes every write durable before its answer. Above 0, a
	// crash of the machine loses the writes of the latest interval.
	WALSyncInterval Duration `toml:"wal-sync-interval"`
	WALSegmentSize  Size     `toml:"wal-segment-size"`
	// WALMaxSize is the size of the log above which the shards that need the
	// oldest segments are flushed.
	WALMaxSize Size `toml:"wal-max-size"`
	// CacheMaxMemory bounds the rows that are not in files yet; further writes get
	// 503. 0, here and in the other settings of memory: see shareMemory.
	CacheMaxMemory Size `toml:"cache-max-memory"`
	// SeriesMemory bounds the memory of the series that earlier writes had. Above it those of
	// the largest database are forgotten, and looked up in files again.
	SeriesMemory Size `toml:"series-memory"`
	// FlushSize and FlushIdle say when the cache of a shard is written to files.
	FlushSize Size     `toml:"flush-size"`
	FlushIdle Duration `toml:"flush-idle"`
	// CompactAfter is how long a shard rests before it is compacted fully.
	CompactAfter Duration `toml:"compact-after"`
	// CompactThroughput bounds the bytes that merges read and write per second. 0
	// is no bound.
	CompactThroughput Size `toml:"compact-throughput" reload:"yes"`
	// ScrubInterval is the time in which everything at rest is read once to find damage. 0:
	// only when tsdbd cluster scrub asks.
	ScrubInterval Duration `toml:"scrub-interval"`
	// MaxSeriesPerDatabase and MaxValuesPerTag bound cardinality. Points of new
	// series above a bound are dropped. 0 is no bound.
	MaxSeriesPerDatabase int `toml:"max-series-per-database" reload:"yes"`
	MaxValuesPerTag      int `toml:"max-values-per-tag" reload:"yes"`
	// ValidateKeys drops points with characters in the measurement or in tags that
	// are not printable.
	ValidateKeys bool `toml:"validate-keys" reload:"yes"`
	// MaxFieldsPerMeasurement bounds the fields that a measurement has in a shard.
	// Points that bring more are dropped. 0 is no bound.
	MaxFieldsPerMeasurement int `toml:"max-fields-per-measurement" reload:"yes"`
}

// HTTP is about the API.
type HTTP struct {
	BindAddress string `toml:"bind-address"`
	// MaxBodySize bounds a body, as received and decompressed; 0: no bound.
	MaxBodySize  Size `toml:"max-body-size" reload:"yes"`
	MaxQuerySize Size `toml:"max-query-size" reload:"yes"`
	// MaxBodyMemory bounds all bodies together; further requests get 503.
	MaxBodyMemory Size `toml:"max-body-memory" reload:"yes"`
	// 0 is no limit.
	MaxConcurrentWriteLimit int `toml:"max-concurrent-write-limit" reload:"yes"`
	// MaxEnqueuedWriteLimit writes may wait, for EnqueuedWriteTimeout at most.
	MaxEnqueuedWriteLimit int      `toml:"max-enqueued-write-limit" reload:"yes"`
	EnqueuedWriteTimeout  Duration `toml:"enqueued-write-timeout" reload:"yes"`
	// WriteTimeout is how long a client waits until its points are stored; 0: no bound.
	WriteTimeout       Duration `toml:"write-timeout"`
	MaxConnectionLimit int      `toml:"max-connection-limit"`
	AccessLog          bool     `toml:"access-log"`
	// AccessLogPath is the file of the access log, reopened on SIGHUP. Empty: it
	// goes to the log.
	AccessLogPath string `toml:"access-log-path"`
	// AccessLogStatusFilters are statuses such as 404 or 5xx; empty: all.
	AccessLogStatusFilters []string `toml:"access-log-status-filters"`
	// Headers go with every answer.
	Headers map[string]string `toml:"headers"`
	// MaxRowLimit cuts answers that are not chunked; 0 is no limit.
	MaxRowLimit int `toml:"max-row-limit" reload:"yes"`
	// UIEnabled serves a page at / to browsers.
	UIEnabled bool `toml:"ui-enabled"`
	// PprofEnabled opens /debug/pprof, to administrators if logins are on.
	PprofEnabled bool `toml:"pprof-enabled"`

	// AuthEnabled makes all routes except /ping and /health require a login.
	AuthEnabled bool   `toml:"auth-enabled"`
	Realm       string `toml:"realm"`
	// SharedSecret is the key of bearer tokens; without it no token is accepted.
	SharedSecret Secret `toml:"shared-secret,omitempty"`
	// PingAuthEnabled makes /ping and /health require a login, too.
	PingAuthEnabled bool `toml:"ping-auth-enabled"`

	HTTPSEnabled     bool   `toml:"https-enabled"`
	HTTPSCertificate string `toml:"https-certificate"`
	// HTTPSPrivateKey is the file of the key; empty: the file of the certificate.
	HTTPSPrivateKey string `toml:"https-private-key"`

	// AllowedOrigins are the origins of web pages that may use the API, and
	// AllowedHosts names of the server by which browsers may use it.
	AllowedOrigins []string `toml:"allowed-origins"`
	AllowedHosts   []string `toml:"allowed-hosts"`

	UnixSocketEnabled     bool     `toml:"unix-socket-enabled"`
	BindSocket            string   `toml:"bind-socket"`
	UnixSocketPermissions FileMode `toml:"unix-socket-permissions"`
	// StopTimeout is how long requests may take to finish at the end.
	StopTimeout Duration `toml:"stop-timeout"`
}

// Query bounds queries; 0 is no bound.
type Query struct {
	MaxConcurrentQueries int      `toml:"max-concurrent-queries" reload:"yes"`
	QueryTimeout         Duration `toml:"query-timeout" reload:"yes"`
	LogQueriesAfter      Duration `toml:"log-queries-after" reload:"yes"`
	MaxSelectPoint       int      `toml:"max-select-point" reload:"yes"`
	MaxSelectSeries      int      `toml:"max-select-series" reload:"yes"`
	MaxSelectBuckets     int      `toml:"max-select-buckets" reload:"yes"`
	// MaxMemory bounds the intermediate data of one query, MaxTotalMemory that
	// of all queries together.
	MaxMemory      Size `toml:"max-memory" reload:"yes"`
	MaxTotalMemory Size `toml:"max-total-memory" reload:"yes"`
	// UseDownsamples says when a SELECT takes a downsample.
	UseDownsamples downsample.Use `toml:"use-downsamples"`
}

// Prometheus is about Prometheus' HTTP API.
type Prometheus struct {
	// Database is that of requests which name none. The first write creates it.
	Database string `toml:"database" reload:"yes"`
	// LookbackDelta is how old the latest sample of a series may be.
	LookbackDelta Duration `toml:"lookback-delta" reload:"yes"`
	// ExperimentalPromQL allows what Prometheus has only with a feature flag.
	ExperimentalPromQL bool `toml:"experimental-promql" reload:"yes"`
	// MaxExemplars is how many exemplars are kept in memory, of all databases.
	MaxExemplars int `toml:"max-exemplars"`
}

// Meta is about the catalog.
type Meta struct {
	// RetentionAutocreate has CREATE DATABASE make the policy autogen.
	RetentionAutocreate bool `toml:"retention-autocreate"`
}

// Retention is about the expiry of data.
type Retention struct {
	Enabled       bool     `toml:"enabled"`
	CheckInterval Duration `toml:"check-interval"`
	// WaitForDownsamples is for how long an expired shard group waits for the windows
	// of downsamples that are to be computed from it; 0: for ever.
	WaitForDownsamples Duration `toml:"wait-for-downsamples"`
}

// Monitor is about the database of the server's own figures.
type Monitor struct {
	StoreEnabled  bool     `toml:"store-enabled"`
	StoreDatabase string   `toml:"store-database"`
	StoreInterval Duration `toml:"store-interval"`
}

// Log is about the server's log on standard error.
type Log struct {
	Level  LogLevel `toml:"level" reload:"yes"`
	Format string   `toml:"format"` // auto, console, text or json
}

// ContinuousQueries is about continuous queries, in InfluxDB's words.
type ContinuousQueries struct {
	Enabled bool `toml:"enabled"`
	// LogEnabled logs each run at the level info.
	LogEnabled bool `toml:"log-enabled"`
	// RunInterval is how often the service looks for queries that are due.
	RunInterval Duration `toml:"run-interval"`
	// CatchUp is how far back windows are computed that ended while the server was
	// down; 0: none.
	CatchUp Duration `toml:"catch-up"`
}

// Subscriber is about the copies of writes, in InfluxDB's words.
type Subscriber struct {
	Enabled            bool     `toml:"enabled"`
	HTTPTimeout        Duration `toml:"http-timeout"`
	InsecureSkipVerify bool     `toml:"insecure-skip-verify"`
	// CACerts is a PEM file; without one the roots of the system are trusted.
	CACerts          string `toml:"ca-certs"`
	WriteConcurrency int    `toml:"write-concurrency"`
	WriteBufferSize  int    `toml:"write-buffer-size"` // writes per subscription
}

// TLS returns the settings of connections to subscribers: those of all
// connections, and the certificates that are trusted.
func (c *Subscriber) TLS(t *tls.Config) (*tls.Config, error) {
	t = t.Clone()
	t.InsecureSkipVerify = c.InsecureSkipVerify
	if c.CACerts == "" {
		return t, nil
	}
	var err error
	if t.RootCAs, err = certificate.ReadPool(c.CACerts); err != nil {
		return nil, fmt.Errorf("read subscriber.ca-certs: %w", err)
	}
	return t, nil
}

// Default returns the configuration without a file, an environment and flags.
func Default() *Config {
	return &Config{
		Data: Data{
			Dir: "data", WALSegmentSize: 16 << 20, WALMaxSize: 512 << 20,
			FlushIdle: Duration(10 * time.Minute), CompactAfter: Duration(10 * time.Minute),
			MaxFieldsPerMeasurement: 1_000_000, ScrubInterval: Duration(7 * 24 * time.Hour),
		},
		HTTP: HTTP{
			BindAddress: "127.0.0.1:8086", MaxBodySize: 25_000_000, MaxQuerySize: 1 << 20,
			EnqueuedWriteTimeout: Duration(httpapi.DefaultWriteWait), WriteTimeout: Duration(30 * time.Second), StopTimeout: Duration(30 * time.Second), Realm: httpapi.DefaultRealm, UIEnabled: true,
			BindSocket: "/var/run/tsdbd.sock", UnixSocketPermissions: 0o660,
		},
		Prometheus: Prometheus{
			Database: httpapi.DefaultPrometheusDatabase, LookbackDelta: Duration(engine.DefaultLookback), MaxExemplars: 100_000,
		},
		Query:   Query{UseDownsamples: downsample.Expired},
		TLS:     TLS{MinVersion: tls.VersionTLS12},
		Cluster: defaultCluster(),
		Meta:    Meta{RetentionAutocreate: true},
		Retention: Retention{
			Enabled: true, CheckInterval: Duration(30 * time.Minute),
		},
		Cold: defaultCold(),
		Continuous: ContinuousQueries{
			Enabled: true, LogEnabled: true,
			RunInterval: Duration(continuous.DefaultInterval), CatchUp: Duration(continuous.DefaultCatchUp),
		},
		Subscriber: Subscriber{
			Enabled: true, HTTPTimeout: Duration(subscriber.DefaultTimeout),
			WriteConcurrency: subscriber.DefaultConcurrency, WriteBufferSize: subscriber.DefaultQueueLength,
		},
		Monitor: Monitor{StoreDatabase: monitor.DefaultDatabase, StoreInterval: Duration(monitor.DefaultInterval)},
		Log:     Log{Format: "auto"},
	}
}

// Source says where settings come from in addition to the environment, and how
// much memory they share. Empty fields change nothing.
type Source struct {
	File    string // TOML
	Dir     string // data.dir
	Address string // http.bind-address
	Level   string // log.level
	Set     []Flag // further settings
	Heap    int64  // bytes that settings of memory share whose value is 0
}

// Flag is a setting by its key, such as cluster.node, that a flag gives.
type Flag struct{ Name, Key, Text string }

// Load puts the configuration together: the fields of the source win over the
// environment, the environment over the file, the file over the defaults. The
// notes are on keys and variables of InfluxDB.
func (from Source) Load(environ []string) (c *Config, notes []Note, err error) {
	c = Default()
	env := map[string]string{}
	for _, e := range environ {
		if k, v, ok := strings.Cut(e, "="); ok && strings.HasPrefix(k, envPrefix) {
			env[k] = v
		}
	}
	if file := cmp.Or(from.File, env[envPrefix+"CONFIG"]); file != "" {
		if notes, err = c.readFile(file); err != nil {
			return nil, nil, err
		}
	}
	if err := c.readEnv(env); err != nil {
		return nil, nil, err
	}
	notes = append(notes, c.influxVariables(environ)...)
	c.Data.Dir = cmp.Or(from.Dir, c.Data.Dir)
	c.HTTP.BindAddress = cmp.Or(from.Address, c.HTTP.BindAddress)
	if from.Level != "" {
		if err := c.Log.Level.UnmarshalText([]byte(from.Level)); err != nil {
			return nil, nil, fmt.Errorf("-log-level: %w", err)
		}
	}
	if err := c.readFlags(from.Set); err != nil {
		return nil, nil, err
	}
	if c.HTTP.AuthEnabled && c.HTTP.SharedSecret.given && c.HTTP.SharedSecret.text == "" {
		return nil, nil, errEmptySecret
	}
	c.setInputDefaults()
	c.Cluster.setDefaults()
	c.shareMemory(from.Heap)
	if err := c.validate(); err != nil {
		return nil, nil, err
	}
	return c, notes, nil
}

const envPrefix = "TSDBD_"

// readFile reads a TOML file over c. An unknown key is an error: a misspelled
// limit must not pass for a limit. The notes are on keys of InfluxDB.
func (c *Config) readFile(path string) ([]Note, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("read configuration: %w", err)
	}
	m, err := toml.Decode(string(text), c)
	if err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	var document map[string]any
	if _, err := toml.Decode(string(text), &document); err != nil {
		return nil, fmt.Errorf("read configuration %s: %w", path, err)
	}
	var known []string
	for _, s := range example().Settings() {
		known = append(known, s.Key)
	}
	for name := range example().sections() {
		known = append(known, name)
	}
	known = append(known, slices.Sorted(maps.Keys(influxKeys))...)
	var errs []error
	var notes []Note
	for _, k := range m.Undecoded() {
		n, ok, err := c.readInfluxKey(k, document, m)
		switch {
		case err != nil:
			errs = append(errs, err)
		case !ok:
			errs = append(errs, unknownKey(k.String(), known))
		case n.Key != "" && !slices.Contains(notes, n):
			notes = append(notes, n)
		}
	}
	if len(errs) > 0 {
		return nil, fmt.Errorf("read configuration %s: %w", path, errors.Join(errs...))
	}
	return notes, nil
}

// readEnv reads TSDBD_SECTION_KEY variables over c. A variable that resembles a
// known one is an error. Others that begin with TSDBD_ are ignored, because
// container managers create some.
func (c *Config) readEnv(env map[string]string) error {
	var errs []error
	names := map[string]bool{}
	c.growLists(env)
	for _, s := range c.Settings() {
		names[s.Env] = true
		if text, ok := env[s.Env]; ok {
			if err := setField(s.Value, text); err != nil {
				errs = append(errs, fmt.Errorf("%s: %w", s.Env, err))
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(env)) {
		if names[name] {
			continue
		}
		for _, s := range example().Settings() {
			if editDistance(name, s.Env) <= 2 {
				errs = append(errs, fmt.Errorf("unknown variable %s, did you mean %s?", name, s.Env))
				break
			}
		}
	}
	return errors.Join(errs...)
}

// readFlags reads flags over c.
func (c *Config) readFlags(flags []Flag) error {
	settings := c.Settings()
	for _, f := range flags {
		i := slices.IndexFunc(settings, func(s Setting) bool { return s.Key == f.Key })
		if i < 0 {
			return fmt.Errorf("-%s: unknown key %s", f.Name, f.Key)
		}
		if err := setField(settings[i].Value, f.Text); err != nil {
			return fmt.Errorf("-%s: %w", f.Name, err)
		}
	}
	return nil
}

func setField(v reflect.Value, text string) error {
	if u, ok := v.Addr().Interface().(encoding.TextUnmarshaler); ok {
		return u.UnmarshalText([]byte(text))
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Bool:
		b, err := strconv.ParseBool(text)
		if err != nil {
			return fmt.Errorf("%q is neither true nor false", text)
		}
		v.SetBool(b)
	case reflect.Int:
		n, err := strconv.Atoi(text)
		if err != nil {
			return fmt.Errorf("%q is not a number", text)
		}
		v.SetInt(int64(n))
	case reflect.Slice: // of strings
		v.SetZero()
		if text != "" {
			v.Set(reflect.ValueOf(strings.Split(text, ";")))
		}
	case reflect.Map: // of strings
		pairs := map[string]string{}
		for pair := range strings.SplitSeq(text, ";") {
			key, value, ok := strings.Cut(pair, ":")
			if !ok {
				return fmt.Errorf("%q is not name: value", pair)
			}
			pairs[strings.TrimSpace(key)] = strings.TrimSpace(value)
		}
		v.Set(reflect.ValueOf(pairs))
	}
	return nil
}

// logFormats are the formats of the log: console is for people, text and json
// for programs, auto the console's on a terminal and else text.
var logFormats = []string{"auto", "console", "text", "json"}

func (c *Config) validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(c.Data.Dir != "", "data.dir must not be empty")
	if _, port, err := net.SplitHostPort(c.HTTP.BindAddress); err != nil {
		errs = append(errs, fmt.Errorf("http.bind-address must be HOST:PORT such as 127.0.0.1:8086, or :8086 for all addresses, not %q", c.HTTP.BindAddress))
	} else if _, err := net.LookupPort("tcp", port); err != nil {
		errs = append(errs, fmt.Errorf("http.bind-address %q has no port from 0 to 65535", c.HTTP.BindAddress))
	}
	check(!c.HTTP.HTTPSEnabled || c.HTTP.HTTPSCertificate != "", "http.https-certificate must name a file if http.https-enabled is true")
	check(!c.HTTP.UnixSocketEnabled || c.HTTP.BindSocket != "", "http.bind-socket must not be empty if http.unix-socket-enabled is true")
	check(c.HTTP.Realm != "" && !strings.ContainsFunc(c.HTTP.Realm, func(r rune) bool { return r < ' ' || r > '~' || r == '"' || r == '\\' }),
		"http.realm must be printable ASCII without quotes, not %q", c.HTTP.Realm)
	if _, err := c.HTTP.Header(); err != nil {
		errs = append(errs, err)
	}
	if _, err := c.HTTP.StatusFilter(); err != nil {
		errs = append(errs, err)
	}
	for _, origin := range c.HTTP.AllowedOrigins {
		check(browser.IsOrigin(origin), "http.allowed-origins has %q, which is neither * nor an origin such as https://grafana.example.org, without a path", origin)
	}
	for _, host := range c.HTTP.AllowedHosts {
		check(browser.IsHost(host), "http.allowed-hosts has %q, which is no name of a host such as tsdb.example.org, without a port", host)
	}
	if _, err := c.TLS.Parse(); err != nil {
		errs = append(errs, err)
	}
	check(c.Data.WALSegmentSize >= 1<<20, "data.wal-segment-size must be at least 1MiB")
	check(c.Data.FlushSize > 0, "data.flush-size must be positive")
	check(c.Data.CacheMaxMemory >= c.Data.FlushSize, "data.cache-max-memory must be at least data.flush-size")
	check(c.Data.SeriesMemory > 0, "data.series-memory must be positive")
	check(c.Data.WALMaxSize >= c.Data.WALSegmentSize, "data.wal-max-size must be at least data.wal-segment-size")
	check(c.HTTP.MaxBodyMemory >= c.HTTP.MaxBodySize && c.HTTP.MaxBodyMemory > 0, "http.max-body-memory must be positive and at least http.max-body-size")
	check(c.Data.FlushIdle > 0 && c.Data.CompactAfter > 0, "data.flush-idle and data.compact-after must be positive")
	check(c.Data.ScrubInterval == 0 || c.Data.ScrubInterval >= Duration(time.Minute), "data.scrub-interval must be at least a minute, or 0")
	check(c.Continuous.RunInterval > 0 && c.Continuous.CatchUp >= 0, "continuous_queries.run-interval must be positive and catch-up not negative")
	check(c.Subscriber.HTTPTimeout > 0 && c.Subscriber.WriteConcurrency > 0 && c.Subscriber.WriteConcurrency <= 1000 &&
		c.Subscriber.WriteBufferSize > 0 && c.Subscriber.WriteBufferSize <= 1<<20,
		"subscriber.http-timeout, write-concurrency (at most 1000) and write-buffer-size (at most 1048576) must be positive")
	check(meta.CheckName(c.Prometheus.Database) == nil, "prometheus.database cannot be %q", c.Prometheus.Database)
	check(c.Prometheus.MaxExemplars >= 0, "prometheus.max-exemplars must not be negative")
	check(c.Prometheus.LookbackDelta >= Duration(time.Millisecond), "prometheus.lookback-delta must be at least a millisecond")
	check(c.Retention.CheckInterval > 0, "retention.check-interval must be positive")
	check(c.Retention.WaitForDownsamples >= 0, "retention.wait-for-downsamples must not be negative")
	errs = append(errs, c.Cold.check())
	check(slices.Contains(meta.DownsampleUses, c.Query.UseDownsamples), "query.use-downsamples must be one of %v, not %q", meta.DownsampleUses, c.Query.UseDownsamples)
	check(slices.Contains(logFormats, c.Log.Format), "log.format must be one of %s, not %q", strings.Join(logFormats, ", "), c.Log.Format)
	check(c.Monitor.StoreInterval >= Duration(time.Second), "monitor.store-interval must be at least a second")
	check(!c.Monitor.StoreEnabled || meta.CheckName(c.Monitor.StoreDatabase) == nil, "monitor.store-database cannot be %q", c.Monitor.StoreDatabase)
	for name, n := range map[string]int{
		"data.max-series-per-database": c.Data.MaxSeriesPerDatabase, "data.max-values-per-tag": c.Data.MaxValuesPerTag,
		"data.max-fields-per-measurement": c.Data.MaxFieldsPerMeasurement,
		"http.max-concurrent-write-limit": c.HTTP.MaxConcurrentWriteLimit, "http.max-enqueued-write-limit": c.HTTP.MaxEnqueuedWriteLimit, "http.max-connection-limit": c.HTTP.MaxConnectionLimit,
		"http.max-row-limit":           c.HTTP.MaxRowLimit,
		"query.max-concurrent-queries": c.Query.MaxConcurrentQueries, "query.max-select-point": c.Query.MaxSelectPoint,
		"query.max-select-series": c.Query.MaxSelectSeries, "query.max-select-buckets": c.Query.MaxSelectBuckets,
	} {
		check(n >= 0, "%s must not be negative", name)
	}
	errs = append(errs, c.checkCluster()...)
	return errors.Join(append(errs, c.checkInputs()...)...)
}

// Print writes c as a file that would give c again.
func (c *Config) Print(w io.Writer) error {
	e := toml.NewEncoder(w)
	e.Indent = ""
	return e.Encode(c)
}

// DataPath returns the absolute path of the data directory.
func (c *Config) DataPath() string {
	if p, err := filepath.Abs(c.Data.Dir); err == nil {
		return p
	}
	return c.Data.Dir
}
