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

	"tsdbd/internal/vfs"
	"tsdbd/server"
	"tsdbd/store"
	"tsdbd/transfer"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/load"
	"tsdbd/transfer/tsm1"
)

// influxImport is an import of InfluxDB's files.
type influxImport struct {
	client          transfer.Client
	from, data      string
	journal, failed string
	buckets         []string
	dry             bool
	source          tsm1.Options
	opt             load.Options
	stdout, stderr  io.Writer
	p               *progress
	begin           time.Time
	refusals        *load.Refusals
	damaged         map[string]bool
	wrong           []string   // what is missing before anything is loaded
	mu              sync.Mutex // for damaged
}

const (
	// filesPerSecond and linesPerSecond are about how many values two cores load into
	// finished shards, and into a server on the same machine.
	filesPerSecond = 10_000_000
	linesPerSecond = 2_000_000
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
		Flags: slices.Concat(clientFlags(&m.client, defaultHost), []cli.Flag{
			&cli.StringFlag{Name: "data", Destination: &m.data, Usage: "load into the data directory `DATADIR` of a stopped tsdbd"},
		}, filterFlags(&m.opt.Filter), []cli.Flag{
			measurementFlag(&m.opt.Filter),
			&cli.StringFlag{Name: "newdb", Destination: &m.opt.NewDatabase, Usage: "import the database of -db as `NAME`"},
			&cli.StringFlag{Name: "waldir", Destination: &m.source.WALDir, Usage: "the log of InfluxDB is in `DIR`, not in DIR/wal"},
			&cli.StringFlag{Name: "metadir", Destination: &m.source.MetaDir, Usage: "meta.db of InfluxDB is in `DIR`, not in DIR/meta"},
			&cli.StringSliceFlag{Name: "bucket", Destination: &m.buckets, Usage: "of InfluxDB 2.x: a bucket, by its id or its name, as `BUCKET=DATABASE[/POLICY]`; may be given several times"},
			&cli.StringFlag{Name: "tmp", Destination: &m.source.TempDir, Usage: "unpack the compressed shards of a backup in `DIR`, one for each core; the default is the disk of -data, or the directory of the system for temporary files"},
			&cli.StringFlag{Name: "journal", Destination: &m.journal, Usage: "note finished shards in `FILE`, and skip those that it has; with -data the default is import.journal in the data directory"},
			&cli.StringFlag{Name: "failed", Destination: &m.failed, Usage: "write the values that were refused to `FILE`, as line protocol"},
			&cli.BoolFlag{Name: "dry-run", Destination: &m.dry, Usage: "list what is there, and load nothing"},
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
			m.stdout, m.stderr, m.p = stdout, stderr, newProgress(stderr)
			var err error
			if m.from, err = filepath.Abs(rest[0]); err != nil {
				return err
			}
			return m.run(ctx)
		}),
	}
}

// note prints a line above the progress.
func (m *influxImport) note(format string, args ...any) {
	m.p.clear()
	fmt.Fprintln(m.stderr, printable(fmt.Sprintf(format, args...)))
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
	src := load.InfluxDB(opened)
	for _, name := range src.LeftOut(&m.opt.Filter) {
		m.note("database %s is left out, because the server keeps it about itself: -db %s imports it", name, name)
	}
	if m.dry {
		return m.survey(src, unpacked(opened.Shards()))
	}
	var failed io.Writer
	if m.failed != "" {
		refused, rerr := transfer.OpenRefused(m.failed, true)
		if rerr != nil {
			return rerr
		}
		defer func() { err = errors.Join(err, refused.Close()) }()
		failed = refused
	}
	m.refusals = load.NewRefusals(failed)
	m.opt.Refusals = m.refusals
	m.opt.Note = func(text string) { m.note("%s", text) }
	m.opt.Damaged = func() bool {
		m.mu.Lock()
		defer m.mu.Unlock()
		return len(m.damaged) > 0
	}
	m.begin = time.Now()
	m.opt.Progress = func(x load.Progress) {
		m.p.show("%s%d of %d shards", pace(min(x.Values, x.Expected), x.Expected, x.Values, time.Since(m.begin)), x.Done, x.Shards)
	}
	var r *load.Result
	if m.data != "" {
		r, err = m.intoDirectory(ctx, src)
	} else {
		r, err = m.intoServer(ctx, src)
	}
	m.p.clear()
	if err != nil {
		return err
	}
	return m.report(r)
}

// intoDirectory loads into a data directory.
func (m *influxImport) intoDirectory(ctx context.Context, src *load.Source) (_ *load.Result, err error) {
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
	return m.journaled(to, func() (*load.Result, error) { return load.Into(ctx, src, st, m.opt) })
}

// intoServer loads into a running server.
func (m *influxImport) intoServer(ctx context.Context, src *load.Source) (*load.Result, error) {
	withScheme(&m.client)
	if err := m.client.Ping(ctx); err != nil {
		return nil, err
	}
	return m.journaled(m.client.URL, func() (*load.Result, error) { return load.Send(ctx, src, &m.client, m.opt) })
}

// journaled runs a load with the journal, which is removed when all is done.
func (m *influxImport) journaled(to string, run func() (*load.Result, error)) (*load.Result, error) {
	if m.journal == "" {
		return run()
	}
	what := fmt.Sprintf("from %s to %s", m.from, to)
	if p := m.opt.Filter.Params().Encode(); p != (&transfer.Filter{}).Params().Encode() || m.opt.NewDatabase != "" {
		what += fmt.Sprintf(" of %s as %q", p, m.opt.NewDatabase)
	}
	j, err := journal.Open(m.journal, what)
	if err != nil {
		return nil, err
	}
	m.opt.Journal = j
	r, err := run()
	if errors.Is(err, load.ErrLost) {
		return r, errors.Join(fmt.Errorf("%w; the same command begins again", err), j.Remove())
	}
	if err != nil && j.Len() == 0 {
		return r, errors.Join(err, j.Remove())
	}
	if err != nil {
		return r, errors.Join(fmt.Errorf("%w; repeat the same command to continue after the finished shards", err), j.Close())
	}
	return r, j.Remove()
}

// unpacked returns the space that the largest shards need that are unpacked at a time.
func unpacked(shards []*tsm1.Shard) (bytes int64) {
	var sizes []int64
	for _, sh := range shards {
		sizes = append(sizes, sh.Unpacked)
	}
	slices.Sort(sizes)
	for _, n := range sizes[max(len(sizes)-load.DefaultWorkers, 0):] {
		bytes += n
	}
	return bytes
}

// survey prints what the source has. Compressed shards take temporary space meanwhile.
func (m *influxImport) survey(src *load.Source, temporary int64) error {
	amounts, err := src.Survey(&m.opt.Filter)
	if err != nil {
		return err
	}
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
	for _, d := range src.Databases {
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
	_, err = fmt.Fprintf(m.stdout, "%d users, %d continuous queries, %d subscriptions\n%d shards with about %d %s: %s with -data, %s with -host, on two cores; about %s of disk\n",
		len(src.Users), queries, subscriptions, shards, values, of, took(filesPerSecond), took(linesPerSecond), mib(bytes))
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
func (m *influxImport) report(r *load.Result) error {
	took := time.Since(m.begin)
	if m.data != "" {
		fmt.Fprintf(m.stdout, "%d databases, %d retention policies, ", r.Databases, r.Policies)
	}
	fmt.Fprintf(m.stdout, "%d users, %d continuous queries, %d subscriptions made\n", r.Defined.Users, r.Defined.Queries, r.Defined.Subscriptions)
	fmt.Fprintf(m.stdout, "%d values of %d shards loaded in %s, %.1f million a second\n",
		r.Values, r.Shards, took.Round(10*time.Millisecond), float64(r.Values)/max(took.Seconds(), 1e-3)/1e6)
	for _, x := range []struct {
		n    int
		text string
	}{
		{r.Written, "of these shards had points, and got theirs by writes"},
		{r.Earlier, "shards were finished by an earlier import, which has compared them"},
		{r.Expired, "shards are left out: they are older than their retention policies keep points"},
	} {
		if x.n > 0 {
			fmt.Fprintf(m.stdout, "%d %s\n", x.n, x.text)
		}
	}
	if err := printLoaded(m.stdout, r); err != nil {
		return err
	}
	reasons, _ := m.refusals.Reasons()
	for _, reason := range reasons {
		m.note("refused, %d values: %s", reason.Values, reason.Text)
	}
	for _, reason := range r.EarlierRefused.Reasons {
		m.note("refused before the import was broken off: %s", reason)
	}
	wrong := m.wrong
	if n := r.Refused + r.EarlierRefused.Count; n > 0 {
		text := fmt.Sprintf("%d values were refused", n)
		if r.EarlierRefused.Count > 0 {
			text += fmt.Sprintf(", %d of them before the import was broken off", r.EarlierRefused.Count)
		}
		wrong = append(wrong, text)
	}
	if n := len(m.damaged); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d places of the source are damaged", n))
	}
	if r.EarlierFlaws {
		wrong = append(wrong, "the import that was broken off had damaged or missing values, as it said")
	}
	if n := len(r.Missing()); n > 0 {
		wrong = append(wrong, fmt.Sprintf("%d numbers of tsdbd are not those of InfluxDB", n))
	}
	if len(wrong) > 0 {
		return errors.New(strings.Join(wrong, ", "))
	}
	return nil
}

// longTable is how many measurements the table of an import names if all are equal.
const longTable = 100

// printLoaded prints what both sides have. Of very many measurements it names those that
// differ.
func printLoaded(w io.Writer, r *load.Result) error {
	source, target := r.Source, r.Target
	if len(source) > longTable {
		source, target = compare.Totals{}, compare.Totals{}
		for _, d := range compare.Differences(r.Source, r.Target) {
			for from, to := range map[*compare.Totals]compare.Totals{&r.Source: source, &r.Target: target} {
				if m := (*from)[d.Name]; m != nil {
					to[d.Name] = m
				}
			}
		}
		if _, err := fmt.Fprintf(w, "%d measurements with %d values are equal in InfluxDB and tsdbd\n", len(r.Source)-len(source), r.Source.Values()-source.Values()); err != nil || len(source) == 0 {
			return err
		}
	}
	return compare.Table(w, "InfluxDB", "tsdbd", source, target)
}
