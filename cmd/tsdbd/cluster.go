package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/cluster"
	"tsdbd/cluster/admin"
	"tsdbd/exchange"
	"tsdbd/internal/vfs"
)

// clusterTimeout is how long a node may take to say how it is. A node that is
// stopped accepts connections and does not answer.
const clusterTimeout = 3 * time.Second

// clusterAsk is what the flags of the command say.
type clusterAsk struct {
	login         exchange.Client
	asJSON, watch bool
	wait          time.Duration
	voters        int
	voter         bool
	dir           string
	until         uint64
}

func clusterCommand() *cli.Command {
	var ask clusterAsk
	return &cli.Command{
		Name:      "cluster",
		Usage:     "watch and change the nodes of a cluster",
		UsageText: "tsdbd cluster WHAT [flags] [NAME]",
		Description: `tsdbd cluster asks a running node of a cluster about all nodes, or changes which nodes there are. Any node takes the request. With several addresses in -host, the first one that answers is asked.

  status                 the nodes: who leads, who is behind, who is not
                         reachable
  verify                 compare the data of all nodes, by sums of its content
                         at one moment
  scrub                  read every file of the nodes that -host names, one
                         node after the other, and wait until what is found
                         is healed; also of a server that is alone
  transfer-leader [NAME] have the node NAME lead, or any other
  remove NAME            remove a node for good; its data stays where it is
  add NAME               give a node a vote that holds a copy without one, or
                         take the vote with -voter=false. A new node joins by
                         itself: start it with -cluster-join
  finish-upgrade         after all nodes run a new version: write the log in
                         the newest form that all of them read
  leave -data DIR        make the directory of a node that does not run one of
                         a server that is alone, with all that its log has, or
                         with what it has up to -until

The exit code of status is 1 if a node is missing or something is wrong, that of verify is 1 if the nodes differ, that of scrub is 1 if there is damage that is not healed.

Examples:
  tsdbd cluster status -host db1:8086,db2:8086,db3:8086
                                      # ask the first that answers
  tsdbd cluster status -watch         # a page that is refreshed every second
  tsdbd cluster status -wait 5m -voters 3
                                      # wait until three nodes are well
  tsdbd cluster verify && echo equal  # compare the data of all nodes
  tsdbd cluster scrub -host db1:8086,db2:8086,db3:8086
                                      # look for damage on all of them
  tsdbd cluster transfer-leader n2    # before n1 is stopped
  tsdbd cluster remove n3             # its machine is lost`,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &ask.asJSON, Usage: "write JSON"},
			&cli.BoolFlag{Name: "watch", Destination: &ask.watch, Usage: "show the status again every second, until Ctrl-C"},
			&cli.DurationFlag{Name: "wait", Destination: &ask.wait, Usage: "of status and scrub: wait until the cluster is healthy, or damage healed, `TIME` such as 5m at most (scrub: 5m by default)"},
			&cli.IntFlag{Name: "voters", Destination: &ask.voters, Usage: "of status: `N` nodes with a vote are meant to be there, fewer are a problem"},
			&cli.StringFlag{Name: "data", Destination: &ask.dir, Usage: "of leave: the data `DIR` of the node"},
			&cli.Uint64Flag{Name: "until", Destination: &ask.until, Usage: "of leave: leave out the entries of the log behind `SEQUENCE`, which cannot be applied"},
			&cli.BoolFlag{Name: "voter", Destination: &ask.voter, Value: true, Usage: "of add: with a vote, or without one (-voter=false)"},
		}, serverFlags(&ask.login, defaultHost, exchange.CheckAddresses)...),
		ShellComplete: complete("status", "verify", "scrub", "transfer-leader", "remove", "add", "finish-upgrade", "leave"),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			if len(rest) == 0 {
				return usageError(c, "cluster takes what to do: status, verify, scrub, transfer-leader, remove, add, finish-upgrade or leave")
			}
			what, names := rest[0], rest[1:]
			switch {
			case what != "status" && (ask.watch || c.IsSet("voters")), what != "status" && what != "scrub" && c.IsSet("wait"), what != "add" && c.IsSet("voter"), what != "leave" && (ask.dir != "" || c.IsSet("until")), what != "status" && what != "verify" && what != "scrub" && ask.asJSON:
				return usageError(c, "-watch and -voters are for status, -wait for status and scrub, -json for status, verify and scrub, -voter for add, -data and -until for leave")
			case ask.watch && (ask.asJSON || c.IsSet("wait") || c.IsSet("voters")):
				return usageError(c, "-watch takes no other flag of status")
			}
			client := ask.client()
			name := strings.Join(names, " ")
			var err error
			switch {
			case what == "status" && len(names) == 0:
				return ask.status(ctx, client, stdout)
			case what == "verify" && len(names) == 0:
				return ask.verify(ctx, client, stdout)
			case what == "scrub" && len(names) == 0:
				if !c.IsSet("wait") {
					ask.wait = healWait
				}
				return ask.scrub(ctx, client.Nodes, stdout, newProgress(stderr))
			case what == "transfer-leader" && len(names) < 2:
				if name, err = client.TransferLeader(ctx, name); err == nil {
					_, err = fmt.Fprintln(stdout, name, "leads")
				}
			case what == "remove" && len(names) == 1:
				if err = client.Remove(ctx, name); err == nil {
					_, err = fmt.Fprintf(stdout, "%s is no member any more\n", name)
				}
			case what == "add" && len(names) == 1:
				if err = client.Add(ctx, name, ask.voter); err == nil {
					_, err = fmt.Fprintln(stdout, name, map[bool]string{true: "has a vote", false: "holds a copy without a vote"}[ask.voter])
				}
			case what == "finish-upgrade" && len(names) == 0:
				format, err := client.FinishUpgrade(ctx)
				if err == nil {
					_, err = fmt.Fprintf(stdout, "the log is written in format %d, which all nodes read\n", format)
				}
				return err
			case what == "leave" && len(names) == 0 && ask.dir != "":
				return leave(ctx, ask.dir, ask.until, stdout)
			case what == "leave":
				return usageError(c, "cluster leave takes -data, the directory of a node that does not run")
			case what == "remove" || what == "add":
				return usageError(c, "cluster %s takes the name of one node", what)
			case what == "status" || what == "verify" || what == "scrub" || what == "transfer-leader" || what == "finish-upgrade":
				return usageError(c, "unexpected argument %q", name)
			default:
				return usageError(c, "cluster does not know %q", what)
			}
			return err
		}),
	}
}

// leave makes the directory of a node one of a server that is alone.
func leave(ctx context.Context, dir string, until uint64, stdout io.Writer) error {
	at, err := absolute(dir)
	if err != nil {
		return err
	}
	left, err := cluster.Leave(ctx, vfs.OS, at, until)
	if err != nil {
		return err
	}
	if until != 0 {
		if _, err := fmt.Fprintf(stdout, "%s has the entries up to sequence %d, those behind it are left out\n", left.Name, left.Sequence); err != nil {
			return err
		}
	}
	_, err = fmt.Fprintf(stdout, "%s has left its cluster: start tsdbd -data %s without settings of a cluster\n", left.Name, dir)
	return err
}

// client returns the client of all addresses that -host names.
func (a *clusterAsk) client() *admin.Client {
	c := &admin.Client{Timeout: clusterTimeout}
	for url := range strings.SplitSeq(a.login.URL, ",") {
		n := a.login.Copy()
		n.URL = strings.TrimSpace(url)
		withScheme(n)
		c.Nodes = append(c.Nodes, n)
	}
	return c
}

// status prints the status once, or until ctx ends.
func (a *clusterAsk) status(ctx context.Context, c *admin.Client, stdout io.Writer) error {
	if a.watch {
		return watchCluster(ctx, c, stdout)
	}
	s, degraded, err := a.healthy(ctx, c)
	if err != nil {
		return err
	}
	if a.asJSON {
		err = json.NewEncoder(stdout).Encode(s)
	} else {
		err = writeStatus(stdout, s, nil)
	}
	return cmp.Or(err, degraded)
}

// healthy returns the status, and what is wrong with it. It waits for a healthy
// one as long as it may.
func (a *clusterAsk) healthy(ctx context.Context, c *admin.Client) (s *admin.Status, degraded, err error) {
	for end := time.Now().Add(a.wait); ; {
		s, err = c.Status(ctx)
		switch {
		case err != nil:
		case len(s.Degraded()) > 0:
			degraded = errors.New("the cluster is degraded")
		case voters(s) < a.voters:
			degraded = fmt.Errorf("the cluster has %d voters, not %d", voters(s), a.voters)
		default:
			return s, nil, nil
		}
		if !time.Now().Before(end) || ctx.Err() != nil || admin.Lasting(err) {
			return s, degraded, err
		}
		select {
		case <-time.After(200 * time.Millisecond):
		case <-ctx.Done():
		}
	}
}

func voters(s *admin.Status) (n int) {
	for _, m := range s.Members {
		if m.Voter {
			n++
		}
	}
	return n
}

// verify prints what the comparison found.
func (a *clusterAsk) verify(ctx context.Context, c *admin.Client, stdout io.Writer) error {
	v, err := c.Verify(ctx)
	if err != nil {
		return err
	}
	if a.asJSON {
		err = json.NewEncoder(stdout).Encode(v)
	} else {
		err = writeVerification(stdout, v)
	}
	if err == nil && !v.Equal {
		err = errors.New("not all nodes are shown to hold the same data")
	}
	return err
}
