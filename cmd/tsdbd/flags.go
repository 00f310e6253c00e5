package main

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/config"
	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/server/memory"
)

// timeFlag takes a time as RFC 3339 or as nanoseconds.
type timeFlag struct{ to *int64 }

func (t timeFlag) String() string { return "" }
func (t timeFlag) Get() any       { return *t.to }
func (t timeFlag) Set(s string) error {
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		*t.to = n
		return nil
	}
	for _, layout := range []string{time.RFC3339Nano, time.DateTime, time.DateOnly} {
		if at, err := time.Parse(layout, s); err == nil {
			*t.to = at.UnixNano()
			return nil
		}
	}
	return fmt.Errorf("%q is not a time such as 2026-01-31T12:00:00Z, 2026-01-31, or a number of nanoseconds", s)
}

// filterFlags are the flags that choose data.
func filterFlags(to *exchange.Filter) []cli.Flag {
	to.Range = model.AllTime
	return []cli.Flag{
		&cli.StringFlag{Name: "db", Destination: &to.Database, Usage: "only this database, `NAME`"},
		&cli.StringFlag{Name: "rp", Destination: &to.RetentionPolicy, Usage: "only the retention policy `NAME` of the database"},
		&cli.Uint64SliceFlag{Name: "shard", Destination: &to.Shards, Usage: "only the shard `ID`; may be given several times"},
		&cli.GenericFlag{Name: "start", Value: timeFlag{&to.Range.Min}, Usage: "only from `TIME` on: RFC 3339, a date, or nanoseconds"},
		&cli.GenericFlag{Name: "end", Value: timeFlag{&to.Range.Max}, Usage: "only up to `TIME`, which is included"},
	}
}

// textsFlag takes a text each time that it is given.
type textsFlag struct{ to *[]string }

func (f textsFlag) String() string { return "" }
func (f textsFlag) Get() any       { return *f.to }
func (f textsFlag) Set(s string) error {
	*f.to = append(*f.to, s)
	return nil
}

// measurementFlag chooses measurements. Its texts may have commas.
func measurementFlag(to *exchange.Filter) cli.Flag {
	return &cli.GenericFlag{Name: "measurement", Value: textsFlag{&to.Measurements}, Usage: "only the measurement `NAME`, where * and ? match any text and any character, or those that the regular expression /NAME/ matches; may be given several times"}
}

const settingsNote = `Every setting of the file can be given by the environment as well: TSDBD_HTTP_BIND_ADDRESS is bind-address in [http]. Flags win over the environment, the environment over the file.`

// settingsFlags are the flags that say where settings come from.
func settingsFlags(from *config.Source) []cli.Flag {
	from.Heap, _ = memory.Limit()
	return append([]cli.Flag{
		&cli.StringFlag{Name: "config", Destination: &from.File, Local: true, Usage: "read settings from the TOML `FILE`"},
		&cli.StringFlag{Name: "data", Destination: &from.Dir, Local: true, Usage: "keep the data in `DIR`, not in ./data"},
		&cli.StringFlag{Name: "http", Destination: &from.Address, Local: true, Usage: "listen on `HOST:PORT`, not on 127.0.0.1:8086"},
		&cli.StringFlag{Name: "log-level", Destination: &from.Level, Local: true, Usage: "log from a level on: `debug|info|warn|error`; without it from info"},
		&cli.GenericFlag{Name: "reader", Value: &settingFlag{from, "reader", "cold.reader"}, Local: true, Usage: "answer queries of what a server has published in its cold store at `URL`, and take no writes"},
	}, keyFlags(from)...)
}

// keyFlags are the settings whose flags are named as their keys: those of the cold store, and those
// of a node of a cluster that differ from node to node or that a first try needs. Secrets have no
// flag, because lists of processes would show them.
func keyFlags(from *config.Source) (flags []cli.Flag) {
	for _, f := range []struct{ key, usage string }{
		{"cold.url", "keep the files of old shards in the store at `URL`: s3://BUCKET/PREFIX or file:///DIR"},
		{"cold.after", "`DURATION` after its end a shard goes to the cold store"},
		{"cold.endpoint", "the server of the bucket, `URL`; without it Amazon"},
		{"cold.region", "the `REGION` of the bucket"},
		{"cold.access-key", "the `KEY` for the bucket; TSDBD_COLD_SECRET_KEY holds its secret"},
		{"cold.path-style", "`true`: the bucket is in the path of URLs"},
		{"cold.cache-size", "keep this `SIZE` of what queries have read of the cold store"},
		{"cold.cache-dir", "keep it in `DIR`, not in cold-cache of the data directory"},
		{"cold.timeout", "`DURATION` that a read of the cold store is tried"},
		{"cold.upload-rate", "upload at most this `SIZE` a second"},
		{"cold.purge-after", "`DURATION` in which deleted rows leave the cold store"},
		{"cold.grace", "`DURATION` that an object stays which nobody needs"},
		{"cluster.node", "be the node `NAME` of a cluster"},
		{"cluster.bind", "listen for the other nodes on `HOST:PORT`"},
		{"cluster.advertise", "the address of this node for the others, `HOST:PORT`; without it that of -cluster-bind"},
		{"cluster.join", "the nodes of the cluster, this one included: `NAME=HOST:PORT,...`"},
		{"cluster.secret-file", "the secret of the cluster is the first line of `FILE`; TSDBD_CLUSTER_SECRET holds one as well"},
		{"cluster.certificate", "the certificate of this node for the others, PEM `FILE`"},
		{"cluster.private-key", "its key, PEM `FILE`; without it in the file of the certificate"},
		{"cluster.ca", "the authority of all nodes' certificates, PEM `FILE`"},
		{"cluster.voter", "`false`: hold a copy, but take no part in elections"},
	} {
		name := strings.ReplaceAll(f.key, ".", "-")
		flags = append(flags, &cli.GenericFlag{Name: name, Value: &settingFlag{from, name, f.key}, Local: true, Usage: f.usage})
	}
	return flags
}

// settingFlag gives a setting by its key.
type settingFlag struct {
	to        *config.Source
	name, key string
}

func (f *settingFlag) String() string { return "" }
func (f *settingFlag) Get() any       { return f.to.Set }
func (f *settingFlag) Set(s string) error {
	if s == "" {
		return errors.New("it is empty")
	}
	f.to.Set = append(f.to.Set, config.Flag{Name: f.name, Key: f.key, Text: s})
	return nil
}

const defaultHost = "http://127.0.0.1:8086"

// clientFlags are the flags that say where the server is. Commands that can do
// without a server have no default host.
func clientFlags(c *exchange.Client, host string) []cli.Flag {
	return serverFlags(c, host, exchange.CheckAddress)
}

// serverFlags are clientFlags with a check of -host.
func serverFlags(c *exchange.Client, host string, check func(string) error) []cli.Flag {
	url := &cli.StringFlag{Name: "host", Destination: &c.URL, Value: host, Validator: check, Usage: "the running server at `URL`"}
	if host != "" {
		url.Sources = cli.EnvVars("TSDBD_HOST")
	}
	return []cli.Flag{
		url,
		&cli.StringFlag{Name: "username", Destination: &c.Username, Sources: cli.EnvVars("TSDBD_USERNAME"), Usage: "log in as `NAME`"},
		&cli.StringFlag{Name: "password", Destination: &c.Password, Sources: cli.EnvVars("TSDBD_PASSWORD"), Usage: "log in with this `PASSWORD`; the variable shows in no list of processes"},
	}
}

// withScheme completes a client's URL, such as HOST:PORT.
func withScheme(c *exchange.Client) {
	if c.URL != "" && !strings.Contains(c.URL, "://") {
		c.URL = "http://" + c.URL
	}
}

// absolute returns a path as the packages below take it.
func absolute(dir string) (string, error) {
	if err := noURL(dir); err != nil {
		return "", err
	}
	p, err := filepath.Abs(dir)
	return filepath.ToSlash(p), err
}

// urlStart begins a URL. A drive of Windows has one letter.
var urlStart = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]+://`)

// noURL refuses a URL in place of a path: it would become a directory with that name.
func noURL(path string) error {
	if !urlStart.MatchString(path) {
		return nil
	}
	return fmt.Errorf("%q is a URL: name a path of this machine. Only the place of backups can be a URL", path)
}
