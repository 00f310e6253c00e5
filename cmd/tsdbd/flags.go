package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tsdbd/config"
	"tsdbd/model"
	"tsdbd/server/memory"
	"tsdbd/transfer"
)

// listFlag is a flag that may be given several times.
type listFlag []string

func (l *listFlag) String() string     { return strings.Join(*l, ",") }
func (l *listFlag) Set(s string) error { *l = append(*l, s); return nil }

// shardsFlag takes shard ids.
type shardsFlag []uint64

func (l *shardsFlag) String() string { return strings.Trim(fmt.Sprint(*l), "[]") }
func (l *shardsFlag) Set(s string) error {
	var id uint64
	if _, err := fmt.Sscanf(s, "%d", &id); err != nil || fmt.Sprint(id) != s {
		return fmt.Errorf("%q is not a shard id", s)
	}
	*l = append(*l, id)
	return nil
}

// timeFlag takes a time as RFC 3339 or as nanoseconds.
type timeFlag struct{ to *int64 }

func (t timeFlag) String() string { return "" }
func (t timeFlag) Set(s string) error {
	var n int64
	if _, err := fmt.Sscanf(s, "%d", &n); err == nil && fmt.Sprint(n) == s {
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

// filterFlags adds the flags that choose data.
func (f *commandFlags) filterFlags(to *transfer.Filter) {
	to.Range = model.AllTime
	f.StringVar(&to.Database, "db", "", "only this database, `NAME`")
	f.StringVar(&to.RetentionPolicy, "rp", "", "only the retention policy `NAME` of the database")
	f.Var((*shardsFlag)(&to.Shards), "shard", "only the shard `ID`; may be given several times")
	f.Var(timeFlag{&to.Range.Min}, "start", "only from `TIME` on: RFC 3339, a date, or nanoseconds")
	f.Var(timeFlag{&to.Range.Max}, "end", "only up to `TIME`, which is included")
}

// settingsFlags adds the flags that say where settings come from.
func (f *commandFlags) settingsFlags() *config.Source {
	from := new(config.Source)
	from.Heap, _ = memory.Limit()
	f.StringVar(&from.File, "config", "", "read settings from the TOML `FILE`")
	f.StringVar(&from.Dir, "data", "", "keep the data in `DIR`, not in ./data")
	f.StringVar(&from.Address, "http", "", "listen on `HOST:PORT`, not on 127.0.0.1:8086")
	f.StringVar(&from.Level, "log-level", "", "log from a level on: `debug|info|warn|error`; without it from info")
	return from
}

const defaultHost = "http://127.0.0.1:8086"

// clientFlags adds the flags that say where the server is.
func (f *commandFlags) clientFlags(host string) *transfer.Client {
	c := &transfer.Client{}
	does := "the running server at `URL`"
	if host != "" {
		does += "; TSDBD_HOST does as well"
	}
	f.StringVar(&c.URL, "host", host, does)
	f.StringVar(&c.Username, "username", "", "log in as `NAME`; TSDBD_USERNAME does as well")
	f.StringVar(&c.Password, "password", "", "log in with this `PASSWORD`; TSDBD_PASSWORD does as well and shows in no list of processes")
	return c
}

// given tells whether a flag stands in the arguments.
func (f *commandFlags) given(name string) (found bool) {
	f.Visit(func(f *flag.Flag) { found = found || f.Name == name })
	return found
}

// notEmpty is the error of a flag that is given and empty, such as -data "$DIR"
// of a variable that is not set.
func (f *commandFlags) notEmpty() (err error) {
	f.Visit(func(given *flag.Flag) {
		if given.Value.String() == "" {
			err = f.usageError("-%s is empty", given.Name)
		}
	})
	return err
}

// complete fills in what the flags of a client leave out: the scheme, and what
// the environment holds.
func (f *commandFlags) complete(c *transfer.Client) {
	if host := os.Getenv("TSDBD_HOST"); host != "" && c.URL != "" && !f.given("host") {
		c.URL = host
	}
	if c.URL != "" && !strings.Contains(c.URL, "://") {
		c.URL = "http://" + c.URL
	}
	if c.Username == "" {
		c.Username = os.Getenv("TSDBD_USERNAME")
	}
	if c.Password == "" {
		c.Password = os.Getenv("TSDBD_PASSWORD")
	}
}

// absolute returns a path as the packages below take it.
func absolute(dir string) (string, error) {
	p, err := filepath.Abs(dir)
	return filepath.ToSlash(p), err
}
