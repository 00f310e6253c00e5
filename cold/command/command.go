// Package command is tsdbd cold: it asks a running server about its cold store, and has it work
// there.
package command

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"

	"github.com/urfave/cli/v3"

	"tsdbd/cold"
	"tsdbd/exchange"
)

const about = `tsdbd cold asks a running server about the shards whose files are in its cold store, and has it work there:

  status   print what is in the store, and whether the server can use it
  verify   look at each object that the server needs: whether it is there and has
           its size, with -deep also its content
  sweep    take deleted rows out of the store now, and remove the objects that
           nobody has needed for the time of cold.grace
  fetch    bring shards back to the disk of the server: all, or those of -db, -rp
           and -shard. Give their policies COLD INF before, or set cold.after to 0
           if they have no age of their own, or they go to the store again
  claim    make the store that of this server. The server that has it now, or had
           it, uploads and removes nothing there any more

The exit code is 1 if the server cannot use the store, or verify finds damage.

Examples:
  tsdbd cold status
  tsdbd cold verify -deep -db metrics -host http://127.0.0.1:8086`

// errUnsound is returned if the store is not as it should be, which was printed.
var errUnsound = errors.New("the cold store is not as it should be")

// New returns the command. client is that of the flags, and ready completes it.
func New(client *exchange.Client, flags []cli.Flag, ready func()) *cli.Command {
	var asJSON, deep bool
	var db, rp string
	var shards []uint64
	return &cli.Command{
		Name:        "cold",
		Usage:       "look at the shards of a running server that are in an object store",
		UsageText:   "tsdbd cold [flags] status|verify|sweep|fetch|claim",
		Description: about,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "write JSON"},
			&cli.BoolFlag{Name: "deep", Destination: &deep, Usage: "of verify: download each object and check its content"},
			&cli.StringFlag{Name: "db", Destination: &db, Usage: "of verify and fetch: only this database, `NAME`"},
			&cli.StringFlag{Name: "rp", Destination: &rp, Usage: "of verify and fetch: only the retention policy `NAME`"},
			&cli.Uint64SliceFlag{Name: "shard", Destination: &shards, Usage: "of verify and fetch: only the shard `ID`; may be given several times"},
		}, flags...),
		Action: func(ctx context.Context, c *cli.Command) error {
			what, choice := c.Args().First(), db != "" || rp != "" || len(shards) > 0
			known := map[string]bool{"status": true, "verify": true, "sweep": true, "fetch": true, "claim": true}
			switch {
			case c.Args().Len() != 1 || !known[what]:
				return fmt.Errorf("cold takes what to do: status, verify, sweep, fetch or claim, see %s -help", c.FullName())
			case deep && what != "verify", choice && what != "verify" && what != "fetch":
				return fmt.Errorf("-deep is for verify, -db, -rp and -shard for verify and fetch, see %s -help", c.FullName())
			}
			ready()
			if what == "status" {
				return status(ctx, client, asJSON, c.Root().Writer)
			}
			p := url.Values{"do": {what}, "deep": {strconv.FormatBool(deep)}, "db": {db}, "rp": {rp}}
			for _, id := range shards {
				p.Add("shard", strconv.FormatUint(id, 10))
			}
			return work(ctx, client, what, p, asJSON, c.Root().Writer)
		},
	}
}

func ask(ctx context.Context, client *exchange.Client, method string, p url.Values, to any) error {
	err := client.Ask(ctx, method, cold.Path, p, nil, nil, to)
	var refused *exchange.WriteError
	if errors.As(err, &refused) && refused.Status == http.StatusNotFound {
		return fmt.Errorf("%s has no cold store: set cold.url", client.URL)
	}
	return err
}

func status(ctx context.Context, client *exchange.Client, asJSON bool, stdout io.Writer) error {
	st := new(cold.Status)
	err := ask(ctx, client, http.MethodGet, nil, st)
	if err == nil && asJSON {
		err = json.NewEncoder(stdout).Encode(st)
	} else if err == nil {
		err = writeStatus(stdout, st)
	}
	if err == nil && st.Problem != "" {
		err = errUnsound
	}
	return err
}

const mib = 1 << 20

func writeStatus(w io.Writer, st *cold.Status) error {
	line := func(format string, args ...any) error {
		_, err := fmt.Fprintf(w, format+"\n", args...)
		return err
	}
	err := line("%s: %d objects of %.1f MiB in %d shards; shards go there %s after their end", st.Place, st.Objects, float64(st.Bytes)/mib, len(st.Shards), st.After)
	for _, sh := range st.Shards {
		if err == nil {
			err = line("  %s.%s shard %d, up to %s: %.1f MiB in %d objects, %.1f MiB here", sh.Database, sh.Policy, sh.ID, sh.End.Format("2006-01-02"), float64(sh.Bytes)/mib, sh.Objects, float64(sh.Local)/mib)
		}
	}
	if err == nil {
		err = line("uploaded since the start: %d files of %.1f MiB, %d failed; %d objects wait to be removed, %d were", st.Uploads, float64(st.UploadedBytes)/mib, st.UploadFailures, st.Unneeded, st.Removed)
	}
	if c := st.Cache; c != nil && err == nil {
		err = line("cache: %.1f MiB, %d ranges found, %d waited for, %d requests of %.1f MiB, %d failed", float64(c.BytesCached)/mib, c.Hits, c.Misses, c.Gets, float64(c.BytesFetched)/mib, c.Errors)
	}
	if st.Problem != "" && err == nil {
		err = line("PROBLEM: %s", st.Problem)
	}
	return err
}

func work(ctx context.Context, client *exchange.Client, what string, p url.Values, asJSON bool, stdout io.Writer) error {
	r := new(cold.Report)
	err := ask(ctx, client, http.MethodPost, p, r)
	if err == nil && asJSON {
		err = json.NewEncoder(stdout).Encode(r)
	} else if err == nil {
		err = writeReport(stdout, what, r)
	}
	if err == nil && len(r.Problems) > 0 {
		err = errUnsound
	}
	return err
}

func writeReport(w io.Writer, what string, r *cold.Report) (err error) {
	for _, p := range r.Problems {
		if err == nil {
			_, err = fmt.Fprintf(w, "DAMAGED: %s.%s shard %d: %s\n", p.Database, p.Policy, p.Shard, p.Reason)
		}
	}
	if err != nil {
		return err
	}
	switch what {
	case "verify":
		_, err = fmt.Fprintf(w, "%d objects of %.1f MiB looked at, %d damaged\n", r.Objects, float64(r.Bytes)/mib, len(r.Problems))
	case "sweep":
		_, err = fmt.Fprintf(w, "deleted rows taken out of %d shards, %d objects removed\n", r.Shards, r.Removed)
	case "fetch":
		_, err = fmt.Fprintf(w, "%d shards are back, %.1f MiB\n", r.Shards, float64(r.Bytes)/mib)
	case "claim":
		_, err = fmt.Fprintln(w, "the store is that of this server")
	}
	return err
}
