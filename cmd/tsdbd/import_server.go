package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"slices"
	"text/tabwriter"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/mover"
	sinkserver "tsdbd/transfer/sink/server"
	"tsdbd/transfer/source/influxhttp"

	"github.com/urfave/cli/v3"
)

// serverImport is an import from a running server.
type serverImport struct {
	*move
	from     exchange.Client
	opt      influxhttp.Options
	requests sinkserver.Options
	follow   bool
	idle     time.Duration
}

// flags are the flags that only an import from a server has.
func (s *serverImport) flags() []cli.Flag {
	s.opt.Filter.Range = model.AllTime
	return []cli.Flag{
		&cli.StringFlag{Name: "from", Destination: &s.from.URL, Usage: "import everything from the running server at `URL`: InfluxDB 1.x, 2.x, 3.x, or tsdbd"},
		&cli.StringFlag{Name: "from-user", Destination: &s.from.Username, Sources: cli.EnvVars("TSDBD_FROM_USER"), Usage: "log in there as `NAME`"},
		&cli.StringFlag{Name: "from-password", Destination: &s.from.Password, Sources: cli.EnvVars("TSDBD_FROM_PASSWORD"), Usage: "log in there with this `PASSWORD`; the variable shows in no list of processes"},
		&cli.StringFlag{Name: "from-token", Destination: &s.from.Token, Sources: cli.EnvVars("TSDBD_FROM_TOKEN"), Usage: "log in there with this `TOKEN` of InfluxDB 2.x or 3.x"},
		&cli.GenericFlag{Name: "start", Value: timeFlag{&s.opt.Filter.Range.Min}, Usage: "from a server: only from `TIME` on: RFC 3339, a date, or nanoseconds"},
		&cli.GenericFlag{Name: "end", Value: timeFlag{&s.opt.Filter.Range.Max}, Usage: "from a server: only up to `TIME`, which is included"},
		&cli.DurationFlag{Name: "slice", Destination: &s.opt.Slice, Usage: "from a server: ask for at most `DURATION` at once; the default goes by what the server can"},
		&cli.BoolFlag{Name: "follow", Destination: &s.follow, Usage: "from a server: continue with new rows until the writers have moved"},
		&cli.DurationFlag{Name: "idle", Destination: &s.idle, Value: 5 * time.Minute, Usage: "the writers have moved when there was nothing new for `DURATION`; 0: follow until Ctrl-C"},
	}
}

// maxSkew is the difference of clocks that is not worth a word.
const maxSkew = 10 * time.Second

// run imports from s.from to the server of a client.
func (s *serverImport) run(ctx context.Context, c *cli.Command) (err error) {
	to := &s.client
	for _, name := range []string{"precision", "ordered", "format", "columns", "time-format", "timezone", "separator", "decimal-comma"} {
		if c.IsSet(name) {
			return usageError(c, "-%s is for files, not for -from", name)
		}
	}
	if s.follow && s.dry {
		return usageError(c, "-follow and -dry-run exclude each other")
	}
	if err := s.splitLogin(); err != nil {
		return usageError(c, "%v", err)
	}
	if s.from.URL == to.URL {
		return usageError(c, "-from and -host are the same server")
	}
	old, err := influxhttp.Connect(ctx, &s.from)
	if err != nil {
		return &oldServerError{fmt.Errorf("%s: %w", s.from.URL, err)}
	}
	if err := to.Ping(ctx); err != nil {
		return fmt.Errorf("%s: %w", to.URL, err)
	}
	catalog, err := old.Catalog(ctx, &s.opt.Filter)
	if err != nil {
		return &oldServerError{err}
	}
	s.opt.Journal = s.journal != ""
	s.opt.Note = func(text string) { s.note("%s", text) }
	s.note("%s at %s: %d databases", old.Product, s.from.URL, len(catalog.Data.Databases))
	if skew := old.Skew(); skew.Abs() > maxSkew {
		s.note("the clock of %s differs from the one here by %s; times go by the clock there", s.from.URL, skew)
	}
	source := influxhttp.New(old, to, catalog, s.opt)
	if s.dry {
		return s.survey(ctx, source)
	}
	s.move.opt.Filter, s.move.opt.Workers, s.move.opt.Now = s.opt.Filter, cmp.Or(s.requests.Workers, 2), old.Now
	var broken *brokenOff
	return s.kept(s.from.URL+" to "+to.URL, false, func() (err error) {
		if s.failed == "" { // what is refused is counted all the same, once
			if s.move.opt.Failed, err = mover.OpenRefused("", false); err != nil {
				return err
			}
			defer func() { err = errors.Join(err, s.move.opt.Failed.Close()) }()
		}
		return s.transfer(ctx, source, catalog)
	}, func(err error) bool { return errors.As(err, &broken) })
}

// splitLogin takes a login out of the URL, which is printed.
func (s *serverImport) splitLogin() error {
	withScheme(&s.from)
	u, err := url.Parse(s.from.URL)
	if err != nil || u.Host == "" {
		return fmt.Errorf("-from %q is no URL such as http://old:8086", s.from.URL)
	}
	if u.User != nil {
		s.from.Username = u.User.Username()
		s.from.Password, _ = u.User.Password()
		u.User = nil
		s.from.URL = u.String()
	}
	return nil
}

// oldServerError is an error of the server that is imported from.
type oldServerError struct{ err error }

// Error returns the text of the cause.
func (e *oldServerError) Error() string { return e.err.Error() }

// Unwrap returns the cause.
func (e *oldServerError) Unwrap() error { return e.err }

// advice returns what can be done about the error, or "".
func (e *oldServerError) advice() string {
	var answer *exchange.WriteError
	var name *net.DNSError
	switch {
	case errors.As(e.err, &answer) && answer.Status == http.StatusUnauthorized:
		return "log in to the old server with -from-user, and the password in TSDBD_FROM_PASSWORD, or a token in TSDBD_FROM_TOKEN"
	case errors.Is(e.err, errRefused), errors.As(e.err, &name):
		return "name the address of the old server with -from URL"
	}
	return ""
}

// brokenOff is the error of an import that did not come to its end.
type brokenOff struct{ err error }

// Error returns the text of the cause.
func (b *brokenOff) Error() string { return b.err.Error() }

// Unwrap returns the cause.
func (b *brokenOff) Unwrap() error { return b.err }

// rows moves the rows, and those that come while it follows.
func (s *serverImport) rows(ctx context.Context, source *influxhttp.Source) (*mover.Stats, error) {
	opt, sum, upTo := s.move.opt, &mover.Stats{}, time.Time{}
	opt.Progress = func(st mover.Stats) {
		written, refused := sum.Written+st.Written, opt.Failed.Lines(sum.EarlierRefused.Count+st.EarlierRefused.Count)
		if upTo.IsZero() {
			s.p.show("%s%d points written, %d refused", pace(int64(st.Share*1e6), 1e6, written, time.Since(s.begin)), written, refused)
		} else {
			s.p.show("following, %s behind  %d points written, %d refused", opt.Now().Sub(upTo).Round(time.Second), written, refused)
		}
	}
	to := sinkserver.New(&s.client, sinkserver.Options{BatchBytes: s.requests.BatchBytes})
	move := func(ctx context.Context, from mover.Source) (int64, error) {
		st, err := mover.Run(ctx, from, to, opt)
		sum.Add(st)
		return sum.Written, err
	}
	if _, err := move(ctx, source); err != nil || !s.follow {
		return sum, err
	}
	opt.Journal = nil
	err := source.Follow(ctx, influxhttp.FollowOptions{Idle: s.idle, UpTo: func(at time.Time) { upTo = at }}, move)
	if ctx.Err() != nil {
		err = nil // Ctrl-C ends it in order
	}
	return sum, err
}

// transfer takes databases, rows, and definitions.
func (s *serverImport) transfer(ctx context.Context, source *influxhttp.Source, catalog *influxhttp.Catalog) error {
	stats, err := s.rows(ctx, source)
	if err == nil && ctx.Err() != nil {
		ctx = context.WithoutCancel(ctx)
	}
	s.p.clear()
	refused := s.move.opt.Failed.Lines(stats.EarlierRefused.Count)
	if errors.Is(err, mover.ErrLost) {
		return fmt.Errorf("%w; the same command begins again", err)
	} else if err != nil {
		hint := "The same command begins again; with -journal FILE it would continue where it stopped."
		if s.journal != "" {
			hint = "The same command continues where this one stopped."
		}
		fmt.Fprintf(s.stderr, "The import broke off after %d points. %s\n", stats.Written+refused, hint)
		return &brokenOff{err}
	}
	if stats.Earlier > 0 {
		fmt.Fprintf(s.stderr, "%d slices were done before\n", stats.Earlier)
	}
	for _, text := range stats.EarlierRefused.Reasons {
		if !slices.ContainsFunc(stats.Reasons, func(r mover.Reason) bool { return r.Text == text }) {
			s.note("%s", text)
		}
	}
	stats.Refused = refused
	failed := s.result(stats, "points")
	definitions := source.Definitions()
	for _, l := range definitions.Limits {
		s.note("%s.%s refuses writes beyond its limits from now on, as at the old server, unless it had other limits: %s", l.Database, l.RetentionPolicy, l.Statement())
	}
	if statements := definitions.Statements(); len(statements) > 0 {
		made, err := s.client.Define(ctx, definitions)
		if err != nil {
			fmt.Fprintln(s.stderr, mover.Printable("the continuous queries, downsamples and write limits were not made: "+err.Error()))
			catalog.Statements = append(catalog.Statements, statements...)
		}
		if made.Queries > 0 {
			fmt.Fprintf(s.stdout, "%d continuous queries made\n", made.Queries)
		}
		if made.Downsamples > 0 {
			fmt.Fprintf(s.stdout, "%d downsamples made\n", made.Downsamples)
		}
	}
	for _, n := range catalog.Notes {
		fmt.Fprintln(s.stderr, mover.Printable(n))
	}
	if len(catalog.Statements) > 0 {
		fmt.Fprintln(s.stdout, "To be run by hand, with passwords of your choice:")
		for _, q := range catalog.Statements {
			fmt.Fprintln(s.stdout, " ", mover.Printable(q))
		}
	}
	return errors.Join(failed, s.compare(ctx, source))
}

// compare prints what both servers have.
func (s *serverImport) compare(ctx context.Context, source *influxhttp.Source) error {
	stop := s.p.during("comparing both servers, %s")
	old, now, err := source.Compare(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(s.stderr, mover.Printable("the servers could not be compared: "+err.Error()))
		return nil
	}
	if err := compare.Table(s.stdout, "old", "new", old, now); err != nil {
		return err
	}
	differences := compare.Differences(old, now)
	n := len(differences)
	if s.follow {
		differences = slices.DeleteFunc(differences, func(d compare.Difference) bool { return d.More })
	}
	if more := n - len(differences); more > 0 {
		fmt.Fprintf(s.stdout, "%d of the differences are what the writers have written to the new server\n", more)
	}
	if n := len(differences); n > 0 {
		return fmt.Errorf("%d differences between the servers", n)
	}
	return nil
}

// survey prints what there is.
func (s *serverImport) survey(ctx context.Context, source *influxhttp.Source) error {
	stop := s.p.during("counting, %s")
	found, took, err := source.Survey(ctx)
	stop()
	if err != nil {
		return err
	}
	t := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "measurement\tfields\tvalues")
	var total int64
	for _, f := range found {
		fmt.Fprintf(t, "%s\t%d\t%d\n", mover.Printable(f.Database+"."+f.Policy+"."+f.Measurement), f.Fields, f.Values)
		total += f.Values
	}
	if err := t.Flush(); err != nil {
		return err
	}
	_, err = fmt.Fprintf(s.stdout, "%d values; reading them takes about %s\n", total, took.Round(time.Second))
	return err
}
