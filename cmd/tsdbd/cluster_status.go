package main

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"golang.org/x/term"

	"tsdbd/cluster/admin"
)

// pageInterval is how often the status is shown.
const pageInterval = time.Second

// rates are entries per second that nodes have applied, by name.
type rates map[string]float64

// writeStatus writes a cluster as a table. With rates, it has a column for them.
func writeStatus(w io.Writer, s *admin.Status, r rates) error {
	var b bytes.Buffer
	fmt.Fprintf(&b, "cluster %s   leader %s   term %d   log %s of %s   writes on %d of %d disks   as %s (%s) sees it\n\n",
		s.Cluster, cmp.Or(s.Leader, "none"), s.Term, mib(s.LogBytes), mib(s.LogMaxBytes), s.Disks, len(s.Members), s.Node, s.Role)
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	entries := ""
	if r != nil {
		entries = "ENTRIES/S\t"
	}
	fmt.Fprintln(table, "NODE\tROLE\tADDRESS\tREACHABLE\tAPPLIED\tBEHIND\t"+entries+"VERSION")
	byName := func(a, b admin.Member) int { return strings.Compare(a.Name, b.Name) }
	for _, m := range slices.SortedFunc(slices.Values(s.Members), byName) {
		reachable, applied, behind, version := "no", "-", "-", cmp.Or(m.Version, "-")
		if m.Reachable {
			reachable, applied, behind = "yes", fmt.Sprint(m.Applied), lag(m.LagSeconds)
		}
		if r != nil {
			entries = fmt.Sprintf("%.0f\t", r[m.Name])
		}
		fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\t%s%s\n", m.Name, memberRole(m), m.Address, reachable, applied, behind, entries, version)
	}
	if err := table.Flush(); err != nil {
		return err
	}
	if t := s.Transfer; t != nil {
		fmt.Fprintf(&b, "\n%s copies the data of %s: %s%s\n", s.Node, t.From, mib(t.Bytes), ofTotal(t.TotalBytes))
	}
	reasons := s.Degraded()
	for _, reason := range reasons {
		fmt.Fprintf(&b, "\nPROBLEM  %s", reason)
	}
	for _, note := range s.Notes {
		fmt.Fprintf(&b, "\nNOTE     %s", note)
	}
	if len(reasons)+len(s.Notes) > 0 {
		b.WriteByte('\n')
	}
	_, err := w.Write(b.Bytes())
	return err
}

func memberRole(m admin.Member) string {
	switch {
	case m.Leader:
		return admin.RoleLeader
	case m.Voter:
		return admin.RoleFollower
	}
	return "copy"
}

// lag returns how far a node is behind, to a hundredth of a second.
func lag(seconds float64) string {
	const most = 1e9 // more does not fit into a Duration
	return time.Duration(min(seconds, most) * float64(time.Second)).Round(10 * time.Millisecond).String()
}

func ofTotal(bytes int64) string {
	if bytes == 0 {
		return ""
	}
	return " of " + mib(bytes)
}

// writeVerification writes what the comparison of all nodes found.
func writeVerification(w io.Writer, v *admin.Verification) error {
	var b bytes.Buffer
	table := tabwriter.NewWriter(&b, 0, 0, 2, ' ', 0)
	more := len(v.Differences) > 0
	fmt.Fprint(table, "NODE\tSUM OF THE CONTENT")
	if more {
		fmt.Fprint(table, "\tVALUES\tFILES UP TO\tOF TERM")
	}
	fmt.Fprintln(table)
	for _, n := range v.Nodes {
		switch {
		case n.Error != "":
			fmt.Fprintf(table, "%s\tnone: %s\n", n.Name, n.Error)
		case more:
			fmt.Fprintf(table, "%s\t%s\t%d\t%d\t%d\n", n.Name, n.Sum, n.Values, n.Flushed, n.Term)
		default:
			fmt.Fprintf(table, "%s\t%s\n", n.Name, n.Sum)
		}
	}
	if err := table.Flush(); err != nil {
		return err
	}
	for _, d := range v.Differences {
		where := "the catalog"
		if d.Database != "" {
			where = fmt.Sprintf("shard %d of %q.%q", d.Shard, d.Database, d.RetentionPolicy)
		}
		fmt.Fprintf(&b, "\nDIFFERENT  %s:", where)
		for _, node := range slices.Sorted(maps.Keys(d.Sums)) {
			fmt.Fprintf(&b, " %s %s", node, cmp.Or(d.Sums[node], "missing"))
			if d.Sums[node] != "" && d.Database != "" {
				fmt.Fprintf(&b, " (%d values)", d.Values[node])
			}
		}
	}
	if more {
		fmt.Fprintf(&b, "\n\nA sum does not tell which node is right, and neither do two that are equal. Acknowledged points may be\nalone on %s. Keep a copy of the directory of a node before you replace it.\n", mayBeAlone(v))
	}
	outcome := "the same"
	if !v.Equal {
		outcome = "NOT shown to be the same"
	}
	fmt.Fprintf(&b, "\ncontent at sequence %d: %s on all nodes\n", v.Sequence, outcome)
	_, err := w.Write(b.Bytes())
	return err
}

// mayBeAlone names the nodes that have more of a shard than all others, or all that
// were compared if there is none.
func mayBeAlone(v *admin.Verification) string {
	most := map[string]bool{}
	for _, d := range v.Differences {
		best, alone := "", false
		for _, node := range slices.Sorted(maps.Keys(d.Values)) {
			switch n := d.Values[node]; {
			case best == "" || n > d.Values[best]:
				best, alone = node, true
			case n == d.Values[best]:
				alone = false
			}
		}
		if alone {
			most[best] = true
		}
	}
	if len(most) == 0 {
		return "any of them"
	}
	return strings.Join(slices.Sorted(maps.Keys(most)), " and ")
}

// watchCluster shows the status every second until ctx ends: on a terminal as a
// page that replaces itself, elsewhere one below the other.
func watchCluster(ctx context.Context, c *admin.Client, stdout io.Writer) error {
	clear := ""
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\x1b[H\x1b[2J"
	}
	ticker := time.NewTicker(pageInterval)
	defer ticker.Stop()
	var last *admin.Status
	var lastAt time.Time
	for {
		now := time.Now()
		var page bytes.Buffer
		fmt.Fprintf(&page, "%s%s\n", clear, now.Format(time.TimeOnly))
		s, err := c.Status(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintf(&page, "no node answers: %s\n", strings.ReplaceAll(err.Error(), "\n", "\n  "))
		default:
			err := writeStatus(&page, s, applyRates(last, s, now.Sub(lastAt)))
			if err != nil {
				return err
			}
			last, lastAt = s, now
		}
		page.WriteByte('\n')
		if _, err := stdout.Write(page.Bytes()); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return nil
		}
	}
}

// applyRates returns how fast nodes went from one status to the next.
func applyRates(last, s *admin.Status, between time.Duration) rates {
	r := rates{}
	if last == nil || between <= 0 {
		return r
	}
	for _, m := range s.Members {
		i := slices.IndexFunc(last.Members, func(l admin.Member) bool { return l.Name == m.Name && l.ID == m.ID })
		if i >= 0 && m.Applied > last.Members[i].Applied {
			r[m.Name] = float64(m.Applied-last.Members[i].Applied) / between.Seconds()
		}
	}
	return r
}
