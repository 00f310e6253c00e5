package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/exchange"
	"tsdbd/internal/vfs"
	"tsdbd/server"
	"tsdbd/store"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/files"
	sinkserver "tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/influxfiles"
	"tsdbd/transfer/tsm1"
)

// influxImport is an import of InfluxDB's files.
type influxImport struct {
	move
	from, data string
	buckets    []string
	source     tsm1.Options
	damaged    map[string]bool
	wrong      []string   // what is missing before anything is moved
	mu         sync.Mutex // for damaged
}

const (
	// filesPerSecond and linesPerSecond are about how many values two cores load into
	// finished shards, and into a server on the same machine.
	filesPerSecond = 10_000_000
	linesPerSecond = 2_000_000
	// shardsAtOnce is how many shards are loaded into a directory at a time.
	shardsAtOnce = 2
	// longTable is how many measurements the table at the end names if all are equal.
	longTable = 100
	// loadMemory is the heap of a load, above which the collector works harder.
	loadMemory = 320 << 20
)

func importInfluxCommand() *cli.Command {
	m := &influxImport{damaged: map[string]bool{}}
	return &cli.Command{
		Name:      "influxdb",
		Usage:     "move the files of InfluxDB 1.x or 2.x",
		UsageText: "tsdbd import influxdb [flags] -data DATADIR DIR\ntsdbd import influxdb [flags] [-host URL] DIR",
		Description: `tsdbd import influxdb reads the files of InfluxDB in DIR: the directory of a stopped server of 1.x (with data, wal and meta below it), a copy of it, a backup by influxd backup, the directory of a stopped server of 2.x, or a backup by influx backup of 2.x. It changes nothing there.

With -data it loads into the data directory of a stopped tsdbd, which may be new: a shard that has nothing there gets finished files, which is fast. Without -data it writes to a running server. Databases, retention policies, users with their passwords, grants, continuous queries and subscriptions come along; what is there already stays as it is.

An import that ends early continues where it stopped when it is repeated: with -data always, for a running server with the same -journal. At the end it compares series, counts and sums. The exit code is 1 when values were refused, the source is damaged or lacks a part, the catalog does not name all shards, or something is missing at the end.

Examples:
  tsdbd import influxdb -dry-run /var/lib/influxdb
                                      # what is there, how long it takes
  tsdbd import influxdb -data /var/lib/tsdbd /var/lib/influxdb
  tsdbd import influxdb -host http://127.0.0.1:8086 -db telegraf -newdb old /backup/influxdb
  tsdbd import influxdb -data /var/lib/tsdbd -bucket 0a1b2c3d4e5f6071=telegraf/autogen ~/.influxdbv2
  tsdbd import influxdb -data /var/lib/tsdbd -bucket "my bucket"=telegraf /backup/influxdb2`,
		Flags: slices.Concat(m.flags("note finished shards in `FILE`, and skip those that it has; with -data the default is import.journal in the data directory"), []cli.Flag{
			&cli.StringFlag{Name: "data", Destination: &m.data, Usage: "load into the data directory `DATADIR` of a stopped tsdbd"},
		}, filterFlags(&m.opt.Filter), []cli.Flag{
			measurementFlag(&m.opt.Filter),
			&cli.StringFlag{Name: "newdb", Destination: &m.opt.NewDatabase, Usage: "import the database of -db as `NAME`"},
			&cli.StringFlag{Name: "waldir", Destination: &m.source.WALDir, Usage: "the log of InfluxDB is in `DIR`, not in DIR/wal"},
			&cli.StringFlag{Name: "metadir", Destination: &m.source.MetaDir, Usage: "meta.db of InfluxDB is in `DIR`, not in DIR/meta"},
			&cli.StringSliceFlag{Name: "bucket", Destination: &m.buckets, Usage: "of InfluxDB 2.x: a bucket, by its id or its name, as `BUCKET=DATABASE[/POLICY]`; may be given several times"},
			&cli.StringFlag{Name: "tmp", Destination: &m.source.TempDir, Usage: "unpack the compressed shards of a backup in `DIR`, one for each core; the default is the disk of -data, or the directory of the system for temporary files"},
		}),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			switch {
			case len(rest) != 1:
				return usageError(c, "import influxdb takes one directory")
			case m.data != "" && c.IsSet("host"):
				return usageError(c, "import influxdb takes either -data or -host")
			case m.opt.NewDatabase != "" && m.opt.Filter.Database == "":
				return usageError(c, "-newdb needs -db")
			case c.IsSet("data") && m.data == "":
				return usageError(c, "-data is empty")
			}
			if err := noURL(m.data); err != nil {
				return err
			}
			if m.opt.Filter.Range.Empty() {
				return usageError(c, "-end lies before -start")
			}
			if err := m.opt.Filter.CheckMeasurements(); err != nil {
				return usageError(c, "%v", err)
			}
			if m.source.Shards = m.opt.Filter.Shards; len(m.opt.Filter.Measurements) > 0 {
				m.source.Wanted = m.opt.Filter.Wanted()
			}
			m.source.Buckets = map[string]string{}
			for _, b := range m.buckets {
				at := strings.LastIndex(b, "=") // a bucket may have it in its name
				if at <= 0 || at == len(b)-1 {
					return usageError(c, "-bucket is BUCKET=DATABASE or BUCKET=DATABASE/POLICY, not %q", b)
				}
				m.source.Buckets[b[:at]] = b[at+1:]
			}
			m.start(stdout, stderr)
			var err error
			if m.from, err = filepath.Abs(rest[0]); err != nil {
				return err
			}
			return m.run(ctx)
		}),
	}
}

// damage prints damage of the source, once for each place.
func (m *influxImport) damage(path string, offset int64, err error) {
	text := fmt.Sprintf("damaged: %s: %v", path, err)
	if offset >= 0 {
		text = fmt.Sprintf("damaged: %s at offset %d: %v", path, offset, err)
	}
	m.mu.Lock()
	known := m.damaged[text]
	m.damaged[text] = true
	m.mu.Unlock()
	if !known {
		m.note("%s", text)
	}
}

// doubt notes what the catalog of the source lacks.
func (m *influxImport) doubt(opened *tsm1.Source) {
	if n := opened.Missing(); n > 0 {
		m.wrong = append(m.wrong, fmt.Sprintf("%d parts of the source are missing", n))
	}
	if opened.Stale() {
		m.wrong = append(m.wrong, "the catalog is older than the data")
	}
	f, n := &m.opt.Filter, 0
	var names, flags []string
	for _, sh := range opened.Unnamed() {
		if f.Database != "" && f.Database != sh.Database || f.RetentionPolicy != "" && f.RetentionPolicy != sh.Policy || len(f.Shards) > 0 {
			continue
		}
		if n++; n <= maxNamed {
			names = append(names, fmt.Sprintf("%s.%s/%d", sh.Database, sh.Policy, sh.ID))
			flags = append(flags, fmt.Sprintf("-shard %d", sh.ID))
		}
	}
	if n == 0 {
		return
	}
	if n > maxNamed {
		names, flags = append(names, "..."), append(flags, "...")
	}
	m.wrong = append(m.wrong, fmt.Sprintf("%d shards are left out", n))
	m.note("%d shards are left out, because the catalog does not name them: %s. InfluxDB has dropped them, or the catalog is of another time. The same command with %s brings them, into the policies that their directories name",
		n, strings.Join(names, " "), strings.Join(flags, " "))
}

// maxNamed bounds how many shards a note names.
const maxNamed = 20

func (m *influxImport) run(ctx context.Context) (err error) {
	if m.source.TempDir == "" && m.data != "" {
		m.source.TempDir = m.dataOrHere()
	}
	m.source.Damage = m.damage
	opened, err := tsm1.Open(m.from, m.source)
	if err != nil {
		return err
	}
	for _, text := range opened.Notes() {
		m.note("%s", text)
	}
	m.doubt(opened)
	src := influxfiles.New(opened)
	for _, name := range src.LeftOut(&m.opt.Filter) {
		m.note("database %s is left out, because the server keeps it about itself: -db %s imports it", name, name)
	}
	amounts, err := src.Survey(ctx, &m.opt.Filter)
	if err != nil {
		return err
	}
	if m.dry {
		return m.survey(&src.All, amounts, unpacked(opened.Shards()))
	}
	shards := 0
	for _, a := range amounts {
		m.expected, shards = m.expected+a.Values, shards+a.Shards
	}
	m.opt.Damaged = func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.damaged) > 0
	}
	m.opt.Progress = func(s mover.Stats) {
		m.p.show("%s%d of about %d shards", pace(min(s.Values+s.Passed, m.expected), m.expected, s.Values, time.Since(m.begin)), s.Parts+s.Earlier, shards)
	}
	var s *mover.Stats
	if m.data != "" {
		s, err = m.intoDirectory(ctx, src)
	} else {
		s, err = m.intoServer(ctx, src)
	}
	if err != nil {
		return err
	}
	return m.report(s)
}

// intoDirectory loads into a data directory.
func (m *influxImport) intoDirectory(ctx context.Context, src mover.Source) (_ *mover.Stats, err error) {
	to, err := absolute(m.data)
	if err != nil {
		return nil, err
	}
	if err := server.CheckDir(to); err != nil {
		return nil, err
	}
	if limit := debug.SetMemoryLimit(-1); limit > loadMemory {
		defer debug.SetMemoryLimit(debug.SetMemoryLimit(loadMemory))
	}
	logger := slog.New(slog.NewTextHandler(m.stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	st, err := store.Open(to, store.Options{
		Logger: logger, RetentionInterval: -1, FlushBytes: 16 << 20, CacheBytes: 128 << 20, SeriesTableBytes: 32 << 20,
	})
	if errors.Is(err, vfs.ErrLocked) {
		return nil, fmt.Errorf("%w: stop the server, or import with -host", err)
	}
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, st.Close()) }()
	if m.journal == "" {
		m.journal = filepath.Join(m.data, "import.journal")
	}
	m.opt.Workers = shardsAtOnce
	return m.move.run(ctx, m.what(to), src, files.New(st))
}

// intoServer sends to a running server.
func (m *influxImport) intoServer(ctx context.Context, src mover.Source) (*mover.Stats, error) {
	withScheme(&m.client)
	if err := m.client.Ping(ctx); err != nil {
		return nil, err
	}
	return m.move.run(ctx, m.what(m.client.URL), src, sinkserver.New(&m.client, sinkserver.Options{}))
}

// what names the import for the journal.
func (m *influxImport) what(to string) string {
	what := fmt.Sprintf("from %s to %s", m.from, to)
	if p := m.opt.Filter.Params().Encode(); p != (&exchange.Filter{}).Params().Encode() || m.opt.NewDatabase != "" {
		what += fmt.Sprintf(" of %s as %q", p, m.opt.NewDatabase)
	}
	return what
}

// unpacked returns the space that the largest shards need that are unpacked at a time.
func unpacked(shards []*tsm1.Shard) (bytes int64) {
	var sizes []int64
	for _, sh := range shards {
		sizes = append(sizes, sh.Unpacked)
	}
	slices.Sort(sizes)
	for _, n := range sizes[max(len(sizes)-shardsAtOnce, 0):] {
		bytes += n
	}
	return bytes
}

// survey prints what the source has. Compressed shards take temporary space meanwhile.
func (m *influxImport) survey(c *mover.Catalog, amounts []mover.Amount, temporary int64) error {
	t := tabwriter.NewWriter(m.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "policy\tshards\tfrom\tto\tfiles\tvalues, about")
	var bytes, values int64
	shards := 0
	for _, a := range amounts {
		from, to := "-", "-"
		if a.Shards > 0 {
			from, to = day(a.Times.Min), day(a.Times.Max)
		}
		fmt.Fprintf(t, "%s.%s\t%d\t%s\t%s\t%s\t%d\n", a.Database, a.Policy, a.Shards, from, to, mib(a.Bytes), a.Values)
		bytes, values, shards = bytes+a.Bytes, values+a.Values, shards+a.Shards
	}
	if err := t.Flush(); err != nil {
		return err
	}
	queries, subscriptions := 0, 0
	for _, d := range c.Databases {
		queries += len(d.ContinuousQueries)
		for _, rp := range d.RetentionPolicies {
			subscriptions += len(rp.Subscriptions)
		}
	}
	took := func(rate int64) time.Duration { return time.Duration(values/rate+1) * time.Second }
	of := "values"
	if m.source.Wanted != nil {
		of = "values, those of other measurements included"
	}
	_, err := fmt.Fprintf(m.stdout, "%d users, %d continuous queries, %d subscriptions\n%d shards with about %d %s: %s with -data, %s with -host, on two cores; about %s of disk\n",
		len(c.Users), queries, subscriptions, shards, values, of, took(filesPerSecond), took(linesPerSecond), mib(bytes))
	if temporary > 0 {
		fmt.Fprintf(m.stdout, "compressed shards are unpacked in %s, up to about %s at a time\n", cmp.Or(m.source.TempDir, os.TempDir()), mib(temporary))
	}
	if free, ferr := vfs.OS.Free(m.dataOrHere()); ferr == nil && m.data != "" && int64(free) < bytes {
		m.note("the disk of %s has only %s left", m.data, mib(int64(free)))
	}
	return err
}

// dataOrHere returns the nearest directory to the data directory that is there.
func (m *influxImport) dataOrHere() string {
	dir, err := filepath.Abs(m.data)
	for err == nil && dir != filepath.Dir(dir) {
		if _, err := os.Stat(dir); err == nil {
			break
		}
		dir = filepath.Dir(dir)
	}
	return dir
}

func day(t int64) string { return time.Unix(0, t).UTC().Format(time.DateOnly) }

// report prints the outcome.
func (m *influxImport) report(s *mover.Stats) error {
	took := time.Since(m.begin)
	if m.data != "" {
		fmt.Fprintf(m.stdout, "%d databases, %d retention policies, ", s.Databases, s.Policies)
	}
	fmt.Fprintf(m.stdout, "%d users, %d continuous queries, %d subscriptions made\n", s.Defined.Users, s.Defined.Queries, s.Defined.Subscriptions)
	fmt.Fprintf(m.stdout, "%d values of %d shards loaded in %s, %.1f million a second\n",
		s.Values, s.Parts, took.Round(10*time.Millisecond), float64(s.Values)/max(took.Seconds(), 1e-3)/1e6)
	for _, x := range []struct {
		n    int
		text string
	}{
		{s.Joined, "of these shards had points, and got theirs by writes"},
		{s.Earlier, "shards were finished by an earlier import, which has compared them"},
		{s.Expired, "shards are left out: they are older than their retention policies keep points"},
	} {
		if x.n > 0 {
			fmt.Fprintf(m.stdout, "%d %s\n", x.n, x.text)
		}
	}
	if err := m.compared(s, longTable, "measurements", "InfluxDB", "tsdbd"); err != nil {
		return err
	}
	wrong := m.wrong
	if n := s.Refused + s.EarlierRefused.Count; n > 0 {
		text := fmt.Sprintf("%d values were refused", n)
		if s.EarlierRefused.Count > 0 {
			text += fmt.Sprintf(", %d of them before the import was broken off", s.EarlierRefused.Count)
		}
		wrong = append(wrong, text)
	}
	if n := len(m.damaged); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d places of the source are damaged", n))
	}
	if s.EarlierFlaws {
		wrong = append(wrong, "the import that was broken off had damaged or missing values, as it said")
	}
	if n := len(s.Missing()); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d numbers of tsdbd are not those of InfluxDB", n))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}
