package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/config"
	"tsdbd/model"
	"tsdbd/server/memory"
	"tsdbd/transfer"
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
func filterFlags(to *transfer.Filter) []cli.Flag {
	to.Range = model.AllTime
	return []cli.Flag{
		&cli.StringFlag{Name: "db", Destination: &to.Database, Usage: "only this database, `NAME`"},
		&cli.StringFlag{Name: "rp", Destination: &to.RetentionPolicy, Usage: "only the retention policy `NAME` of the database"},
		&cli.Uint64SliceFlag{Name: "shard", Destination: &to.Shards, Usage: "only the shard `ID`; may be given several times"},
		&cli.GenericFlag{Name: "start", Value: timeFlag{&to.Range.Min}, Usage: "only from `TIME` on: RFC 3339, a date, or nanoseconds"},
		&cli.GenericFlag{Name: "end", Value: timeFlag{&to.Range.Max}, Usage: "only up to `TIME`, which is included"},
	}
}

const settingsNote = `Every setting of the file can be given by the environment as well: TSDBD_HTTP_BIND_ADDRESS is bind-address in [http]. Flags win over the environment, the environment over the file.`

// settingsFlags are the flags that say where settings come from.
func settingsFlags(from *config.Source) []cli.Flag {
	from.Heap, _ = memory.Limit()
	return []cli.Flag{
		&cli.StringFlag{Name: "config", Destination: &from.File, Local: true, Usage: "read settings from the TOML `FILE`"},
		&cli.StringFlag{Name: "data", Destination: &from.Dir, Local: true, Usage: "keep the data in `DIR`, not in ./data"},
		&cli.StringFlag{Name: "http", Destination: &from.Address, Local: true, Usage: "listen on `HOST:PORT`, not on 127.0.0.1:8086"},
		&cli.StringFlag{Name: "log-level", Destination: &from.Level, Local: true, Usage: "log from a level on: `debug|info|warn|error`; without it from info"},
	}
}

const defaultHost = "http://127.0.0.1:8086"

// clientFlags are the flags that say where the server is. Commands that can do
// without a server have no default host.
func clientFlags(c *transfer.Client, host string) []cli.Flag {
	url := &cli.StringFlag{Name: "host", Destination: &c.URL, Value: host, Usage: "the running server at `URL`"}
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
func withScheme(c *transfer.Client) {
	if c.URL != "" && !strings.Contains(c.URL, "://") {
		c.URL = "http://" + c.URL
	}
}

// absolute returns a path as the packages below take it.
func absolute(dir string) (string, error) {
	p, err := filepath.Abs(dir)
	return filepath.ToSlash(p), err
}
