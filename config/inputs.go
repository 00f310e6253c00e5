package config

import (
	"fmt"
	"slices"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/services/input"
	"tsdbd/services/input/collectd"
	"tsdbd/services/input/graphite"
)

// Input is what all inputs beside HTTP have.
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
	Writers    int    `toml:"writers"`
}

// Graphite is an input of Graphite's plain text.
type Graphite struct {
	Input
	Protocol         string   `toml:"protocol"`
	ConsistencyLevel string   `toml:"consistency-level"` // without effect
	Templates        []string `toml:"templates"`
	Tags             []string `toml:"tags"`
	Separator        string   `toml:"separator"`
	UDPReadBuffer    Size     `toml:"udp-read-buffer"`
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
	ConsistencyLevel string `toml:"consistency-level"` // without effect
	TLSEnabled       bool   `toml:"tls-enabled"`
	// Certificate holds the key too, unless PrivateKey names another file.
	Certificate    string `toml:"certificate"`
	PrivateKey     string `toml:"private-key"`
	LogPointErrors bool   `toml:"log-point-errors"`
}

// The defaults of inputs, which are those of a setting that is empty or 0. They
// are InfluxDB's but for the address: nobody has to log in to an input.
func (c *Input) setDefaults(port, database string, size, pending int, timeout time.Duration) {
	setDefault(&c.BindAddress, "127.0.0.1:"+port)
	setDefault(&c.Database, database)
	setDefault(&c.BatchSize, size)
	setDefault(&c.BatchPending, pending)
	setDefault(&c.BatchTimeout, Duration(timeout))
}

func (c *UDP) setDefaults() {
	c.Input.setDefaults("8089", "udp", input.DefaultBatchSize, input.DefaultBatchPending, input.DefaultBatchTimeout)
	setDefault(&c.Writers, 1)
}

func (c *Graphite) setDefaults() {
	c.Input.setDefaults("2003", "graphite", input.DefaultBatchSize, input.DefaultBatchPending, input.DefaultBatchTimeout)
	setDefault(&c.Protocol, "tcp")
	setDefault(&c.ConsistencyLevel, "one")
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
	setDefault(&c.ConsistencyLevel, "one")
	setDefault(&c.Certificate, "/etc/ssl/tsdbd.pem")
}

func setDefault[T comparable](v *T, value T) {
	var zero T
	if *v == zero {
		*v = value
	}
}

// Inputs returns what all inputs have.
func (c *Config) Inputs() []*Input {
	var all []*Input
	for i := range c.UDP {
		all = append(all, &c.UDP[i].Input)
	}
	for i := range c.Graphite {
		all = append(all, &c.Graphite[i].Input)
	}
	for i := range c.Collectd {
		all = append(all, &c.Collectd[i].Input)
	}
	for i := range c.OpenTSDB {
		all = append(all, &c.OpenTSDB[i].Input)
	}
	return all
}

// setInputDefaults fills in what was not set.
func (c *Config) setInputDefaults() {
	for i := range c.UDP {
		c.UDP[i].setDefaults()
	}
	for i := range c.Graphite {
		c.Graphite[i].setDefaults()
	}
	for i := range c.Collectd {
		c.Collectd[i].setDefaults()
	}
	for i := range c.OpenTSDB {
		c.OpenTSDB[i].setDefaults()
	}
}

// example is the default configuration with an input of each kind: all
// keys there are.
func example() *Config {
	c := Default()
	c.UDP, c.Graphite, c.Collectd, c.OpenTSDB = make([]UDP, 1), make([]Graphite, 1), make([]Collectd, 1), make([]OpenTSDB, 1)
	c.setInputDefaults()
	return c
}

// checkInputs tells what is wrong with inputs that are on.
func (c *Config) checkInputs() (errs []error) {
	one := func(kind string, i int, in *Input, check func() error) {
		if !in.Enabled {
			return
		}
		err := check()
		if err == nil && (meta.CheckName(in.Database) != nil || in.RetentionPolicy != "" && meta.CheckName(in.RetentionPolicy) != nil) {
			err = fmt.Errorf("database %q or retention-policy %q cannot be a name", in.Database, in.RetentionPolicy)
		}
		if err == nil && (in.BatchSize < 0 || in.BatchPending < 0 || in.BatchPending > maxPending) {
			err = fmt.Errorf("batch-size must not be negative, batch-pending must be from 1 to %d", maxPending)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s.%d: %w", kind, i, err))
		}
	}
	for i := range c.UDP {
		u := &c.UDP[i]
		one("udp", i, &u.Input, func() error {
			_, err := lineproto.Unit(u.Precision, false)
			if err == nil && (u.Writers < 0 || u.Writers > maxPending) {
				err = fmt.Errorf("writers must be from 1 to %d", maxPending)
			}
			return err
		})
	}
	for i := range c.Graphite {
		g := &c.Graphite[i]
		one("graphite", i, &g.Input, func() error {
			o := g.Options()
			return o.Check()
		})
	}
	for i := range c.Collectd {
		d := &c.Collectd[i]
		one("collectd", i, &d.Input, func() error {
			if !slices.Contains([]string{"split", "join"}, d.ParseMultivaluePlugin) {
				return fmt.Errorf("parse-multivalue-plugin is split or join, not %q", d.ParseMultivaluePlugin)
			}
			_, err := collectd.ParseLevel(d.SecurityLevel)
			return err
		})
	}
	for i := range c.OpenTSDB {
		one("opentsdb", i, &c.OpenTSDB[i].Input, func() error { return nil })
	}
	return errs
}

// maxPending bounds batch-pending and writers, which cost memory.
const maxPending = 1000

// Options returns what the input is opened with, without what all inputs have.
func (c *Graphite) Options() graphite.Options {
	return graphite.Options{
		Address: c.BindAddress, Protocol: c.Protocol, ReadBuffer: c.UDPReadBuffer.Int(),
		Templates: c.Templates, Separator: c.Separator, Tags: c.Tags,
	}
}
