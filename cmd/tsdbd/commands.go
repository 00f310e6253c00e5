package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"tsdbd/backup"
	"tsdbd/model"
)

// commands are the sub-commands beside those that run handles itself.
var commands = map[string]func(ctx context.Context, args []string, stdout, stderr io.Writer) error{
	"inspect": runInspect,
	"verify":  runVerify,
	"backup":  runBackup,
	"restore": runRestore,
	"export":  runExport,
	"import":  runImport,
}

// commandFlags are a sub-command's flags with its help.
type commandFlags struct {
	*flag.FlagSet
	help   string
	stdout io.Writer
}

func newFlags(name, help string, stdout io.Writer) *commandFlags {
	f := &commandFlags{FlagSet: flag.NewFlagSet(name, flag.ContinueOnError), help: help, stdout: stdout}
	f.SetOutput(io.Discard)
	return f
}

// errHelp says that help was asked for and given.
var errHelp = errors.New("help given")

// parse reads the arguments; flags may stand behind other arguments.
func (f *commandFlags) parse(args []string) (rest []string, err error) {
	for {
		if err := f.Parse(args); errors.Is(err, flag.ErrHelp) {
			if _, err := io.WriteString(f.stdout, f.help); err != nil {
				return nil, err
			}
			return nil, errHelp
		} else if err != nil {
			return nil, fmt.Errorf("%w, see tsdbd %s -help", err, f.Name())
		}
		if f.NArg() == 0 {
			return rest, nil
		}
		rest, args = append(rest, f.Arg(0)), f.Args()[1:]
	}
}

// usageError is a wrong use of a sub-command.
func (f *commandFlags) usageError(format string, args ...any) error {
	return fmt.Errorf("%s, see tsdbd %s -help", fmt.Sprintf(format, args...), f.Name())
}

// helped turns errHelp into success.
func helped(err error) error {
	if errors.Is(err, errHelp) {
		return nil
	}
	return err
}

// listFlag is a flag that may be given several times.
type listFlag []string

func (l *listFlag) String() string     { return strings.Join(*l, ",") }
func (l *listFlag) Set(s string) error { *l = append(*l, s); return nil }

// shardsFlag takes shard ids.
type shardsFlag []uint64

func (l *shardsFlag) String() string { return fmt.Sprint(*l) }
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
func (f *commandFlags) filterFlags(to *backup.Filter, measurements bool) {
	to.Range = model.AllTime
	f.StringVar(&to.Database, "db", "", "")
	f.StringVar(&to.RetentionPolicy, "rp", "", "")
	f.Var((*shardsFlag)(&to.Shards), "shard", "")
	if measurements {
		f.Var((*listFlag)(&to.Measurements), "measurement", "")
	}
	f.Var(timeFlag{&to.Range.Min}, "start", "")
	f.Var(timeFlag{&to.Range.Max}, "end", "")
}

const filterHelp = `  -db NAME             only this database
  -rp NAME             only this retention policy of it
  -shard ID            only this shard; may be given several times
  -start T, -end T     only this range of times, both ends included: RFC 3339,
                       a date, or nanoseconds
`

const clientHelp = `  -host URL            the server (default http://127.0.0.1:8086)
  -username, -password for a server that asks; TSDBD_USERNAME and
                       TSDBD_PASSWORD do as well
`

const defaultHost = "http://127.0.0.1:8086"

// clientFlags adds the flags that say where the server is.
func (f *commandFlags) clientFlags(host string) *backup.Client {
	c := &backup.Client{}
	f.StringVar(&c.URL, "host", host, "")
	f.StringVar(&c.Username, "username", os.Getenv("TSDBD_USERNAME"), "")
	f.StringVar(&c.Password, "password", os.Getenv("TSDBD_PASSWORD"), "")
	return c
}

// normalise completes a host that was given without a scheme.
func normalise(c *backup.Client) {
	if c.URL != "" && !strings.Contains(c.URL, "://") {
		c.URL = "http://" + c.URL
	}
}

// absolute returns a path as the packages below take it.
func absolute(dir string) (string, error) {
	p, err := filepath.Abs(dir)
	return filepath.ToSlash(p), err
}

// progress shows a line that replaces itself on a terminal, and nothing
// elsewhere.
type progress struct {
	mu   sync.Mutex
	w    io.Writer
	live bool
	told time.Time
	last int
}

func newProgress(w io.Writer) *progress {
	p := &progress{w: w}
	if f, ok := w.(*os.File); ok {
		st, err := f.Stat()
		p.live = err == nil && st.Mode()&os.ModeCharDevice != 0
	}
	return p
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || time.Since(p.told) < 100*time.Millisecond {
		return
	}
	p.told = time.Now()
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(p.w, "\r%-*s", p.last, text)
	p.last = len(text)
}

// clear removes the line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.last, "")
		p.last = 0
	}
}

// copied shows how far a copy of files is.
func (p *progress) copied(x backup.Progress) {
	percent := 100.0
	if x.Bytes > 0 {
		percent = 100 * float64(x.BytesDone) / float64(x.Bytes)
	}
	p.show("%5.1f%%  %s of %s  %d of %d objects  %s there already", percent, mib(x.BytesDone), mib(x.Bytes), x.ObjectsDone, x.Objects, mib(x.Reused))
}

func mib(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
