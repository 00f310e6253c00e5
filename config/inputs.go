package config

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/services/input"
	"tsdbd/services/input/collectd"
	"tsdbd/services/input/graphite"
)

// Input has the settings of all inputs other than HTTP.
type Input struct {
	Enabled         bool   `toml:"enabled"`
	BindAddress     string `toml:"bind-address"`
	Database        string `toml:"database"`
	RetentionPolicy string `toml:"retention-policy"`
	// BatchSize is in points. BatchPending batches may wait to be written;
	// BatchTimeout is how long points are gathered.
	BatchSize    int      `toml:"batch-size"`
	BatchPending int      `toml:"batch-pending"`
	BatchTimeout Duration `toml:"batch-timeout"`
}

// UDP is an input of line protocol in packets.
type UDP struct {
	Input
	Precision  string `toml:"precision"`
	ReadBuffer Size   `toml:"read-buffer"`
}

// Graphite is an input of Graphite's plain text.
type Graphite struct {
	Input
	Protocol      string   `toml:"protocol"`
	Templates     []string `toml:"templates"`
	Tags          []string `toml:"tags"`
	Separator     string   `toml:"separator"`
	UDPReadBuffer Size     `toml:"udp-read-buffer"`
}

// Collectd is an input of collectd's packets.
type Collectd struct {
	Input
	ReadBuffer            Size   `toml:"read-buffer"`
	TypesDB               string `toml:"typesdb"`
	SecurityLevel         string `toml:"security-level"`
	AuthFile              string `toml:"auth-file"`
	ParseMultivaluePlugin string `toml:"parse-multivalue-plugin"` // split or join
}

// OpenTSDB is an input of OpenTSDB's lines and its HTTP.
type OpenTSDB struct {
	Input
	TLSEnabled bool `toml:"tls-enabled"`
	// Certificate holds the key too, unless PrivateKey names another file.
	Certificate    string `toml:"certificate"`
	PrivateKey     string `toml:"private-key"`
	LogPointErrors bool   `toml:"log-point-errors"`
}

// setDefaults sets what is empty or 0 to the defaults of InfluxDB, except for the
// address: inputs have no logins, so they listen only on the local host.
func (c *Input) setDefaults(port, database string, size, pending int, timeout time.Duration) {
	setDefault(&c.BindAddress, "127.0.0.1:"+port)
	setDefault(&c.Database, database)
	setDefault(&c.BatchSize, size)
	setDefault(&c.BatchPending, pending)
	setDefault(&c.BatchTimeout, Duration(timeout))
}

func (c *UDP) setDefaults() {
	c.Input.setDefaults("8089", "udp", input.DefaultBatchSize, input.DefaultBatchPending, input.DefaultBatchTimeout)
}

func (c *Graphite) setDefaults() {
	c.Input.setDefaults("2003", "graphite", input.DefaultBatchSize, input.DefaultBatchPending, input.DefaultBatchTimeout)
	setDefault(&c.Protocol, "tcp")
	setDefault(&c.Separator, graphite.DefaultSeparator)
}

func (c *Collectd) setDefaults() {
	c.Input.setDefaults("25826", "collectd", input.DefaultBatchSize, input.DefaultBatchPending, 10*time.Second)
	setDefault(&c.TypesDB, "/usr/share/collectd/types.db")
	setDefault(&c.SecurityLevel, "none")
	setDefault(&c.AuthFile, "/etc/collectd/auth_file")
	setDefault(&c.ParseMultivaluePlugin, "split")
}

func (c *OpenTSDB) setDefaults() {
	c.Input.setDefaults("4242", "opentsdb", 1000, 5, input.DefaultBatchTimeout)
	setDefault(&c.Certificate, "/etc/ssl/tsdbd.pem")
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// inputSection is a section of any kind of input.
type inputSection interface {
	common() *Input
	setDefaults()
	check() error
}

func (c *Input) common() *Input { return c }

// eachInput calls f with every input and its name, such as udp.0.
func (c *Config) eachInput(f func(name string, in inputSection)) {
	eachOf("udp", c.UDP, f)
	eachOf("graphite", c.Graphite, f)
	eachOf("collectd", c.Collectd, f)
	eachOf("opentsdb", c.OpenTSDB, f)
}

func eachOf[T any, P interface {
	*T
	inputSection
}](kind string, list []T, f func(name string, in inputSection),
) {
	for i := range list {
		f(fmt.Sprintf("%s.%d", kind, i), P(&list[i]))
	}
}

// Inputs returns what all inputs have.
func (c *Config) Inputs() (all []*Input) {
	c.eachInput(func(_ string, in inputSection) { all = append(all, in.common()) })
	return all
}

// setInputDefaults fills in what was not set.
func (c *Config) setInputDefaults() {
	c.eachInput(func(_ string, in inputSection) { in.setDefaults() })
}

// example is the default configuration with an input of each kind: all
// keys there are.
func example() *Config {
	c := Default()
	c.UDP, c.Graphite, c.Collectd, c.OpenTSDB = make([]UDP, 1), make([]Graphite, 1), make([]Collectd, 1), make([]OpenTSDB, 1)
	c.setInputDefaults()
	return c
}

// checkInputs returns what is wrong with inputs that are on.
func (c *Config) checkInputs() (errs []error) {
	c.eachInput(func(name string, in inputSection) {
		o := in.common()
		if !o.Enabled {
			return
		}
		if err := cmp.Or(in.check(), o.check()); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", name, err))
		}
	})
	return errs
}

// maxPending bounds batch-pending and writers, which cost memory.
const maxPending = 1000

func (c *Input) check() error {
	if meta.CheckName(c.Database) != nil || c.RetentionPolicy != "" && meta.CheckName(c.RetentionPolicy) != nil {
		return fmt.Errorf("database %q or retention-policy %q cannot be a name", c.Database, c.RetentionPolicy)
	}
	if c.BatchSize < 0 || c.BatchPending < 0 || c.BatchPending > maxPending {
		return fmt.Errorf("batch-size must not be negative, batch-pending must be from 1 to %d", maxPending)
	}
	return nil
}

func (c *UDP) check() error {
	_, err := lineproto.Unit(c.Precision, false)
	return err
}

func (c *Graphite) check() error {
	o := c.Options()
	return o.Check()
}

func (c *Collectd) check() error {
	if !slices.Contains([]string{"split", "join"}, c.ParseMultivaluePlugin) {
		return fmt.Errorf("parse-multivalue-plugin is split or join, not %q", c.ParseMultivaluePlugin)
	}
	_, err := collectd.ParseLevel(c.SecurityLevel)
	return err
}

// Options returns what the input is opened with, without what all inputs have.
func (c *Graphite) Options() graphite.Options {
	return graphite.Options{
		Address: c.BindAddress, Protocol: c.Protocol, ReadBuffer: c.UDPReadBuffer.Int(),
		Templates: c.Templates, Separator: c.Separator, Tags: c.Tags,
	}
}
