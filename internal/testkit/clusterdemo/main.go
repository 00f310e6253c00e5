package main

import (
	"bytes"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"sync"
	"syscall"
	"time"

	"golang.org/x/term"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	context.AfterFunc(ctx, stop) // a second signal ends the process at once
	if err := run(ctx, os.Args[1:], os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "clusterdemo:", err)
		os.Exit(1)
	}
}

const (
	nodeCount    = 3
	pageInterval = time.Second
	// restartAfter is how long a node that ended stays away.
	restartAfter = 5 * time.Second
)

// demo is a cluster with its load.
type demo struct {
	bin, dir string
	nodes    []*node
	load     *load
	events   *events
}

func run(ctx context.Context, args []string, stdout io.Writer) (err error) {
	flags := flag.NewFlagSet("clusterdemo", flag.ContinueOnError)
	flags.SetOutput(stdout)
	bin := flags.String("tsdbd", "bin/tsdbd", "the program")
	port := flags.Int("port", 18086, "the port of the first node's API; the others follow, and those between nodes 100 above. 0: free ports")
	if err := flags.Parse(args); err != nil {
		return err
	}
	d := &demo{events: new(events)}
	if d.bin, err = filepath.Abs(*bin); err != nil {
		return err
	}
	if _, err := exec.LookPath(d.bin); err != nil {
		return fmt.Errorf("find the program, which make build builds: %w", err)
	}
	if d.dir, err = os.MkdirTemp("", "tsdbd-cluster-"); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(d.dir)) }()
	if d.nodes, err = newNodes(d.bin, d.dir, *port, d.events); err != nil {
		return err
	}
	d.load = newLoad(d.nodes, d.events)

	// The load ends before the nodes, so that it meets no node that ends.
	running, end := context.WithCancel(context.Background())
	var nodes, load sync.WaitGroup
	for _, n := range d.nodes {
		nodes.Go(func() { n.run(running) })
	}
	load.Go(func() { d.load.run(ctx) })
	err = d.show(ctx, stdout)
	load.Wait()
	end()
	nodes.Wait()
	_, failed := fmt.Fprintf(stdout, "%s\nThe nodes have ended, %s is removed.\n", d.load.summary(), d.dir)
	return errors.Join(err, failed)
}

// show writes a page each second until ctx ends.
func (d *demo) show(ctx context.Context, stdout io.Writer) error {
	clear := ""
	if f, ok := stdout.(*os.File); ok && term.IsTerminal(int(f.Fd())) {
		clear = "\x1b[H\x1b[2J"
	}
	ticker := time.NewTicker(pageInterval)
	defer ticker.Stop()
	for ctx.Err() == nil {
		page := d.page(ctx)
		if ctx.Err() != nil {
			break
		}
		if _, err := io.WriteString(stdout, clear+page); err != nil {
			return err
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
		}
	}
	return nil
}

func (d *demo) page(ctx context.Context) string {
	var b bytes.Buffer
	fmt.Fprintf(&b, "%s  a cluster on this machine; data and logs in %s; Ctrl-C ends it\n\n", time.Now().Format(time.TimeOnly), d.dir)
	hosts := ""
	for i, n := range d.nodes {
		fmt.Fprintf(&b, "  %s  %s  %s\n", n.name, n.url(), n.state())
		if i > 0 {
			hosts += ","
		}
		hosts += n.address
	}
	fmt.Fprintf(&b, `
  kill -9 PID     a node is lost, and starts again %s later
  kill -STOP PID  a node hangs, until kill -CONT PID
  curl -G '%s/query?db=%s' --data-urlencode 'q=SELECT count(v) FROM %s'

$ tsdbd cluster status -host %s
`, restartAfter, d.nodes[1].url(), database, measurement, hosts)
	status := exec.CommandContext(ctx, d.bin, "cluster", "status", "-host", hosts)
	out, err := status.CombinedOutput()
	b.Write(out)
	if err != nil {
		fmt.Fprintf(&b, "(%v)\n", err)
	}
	fmt.Fprintf(&b, "\n%s\nfound:", d.load.summary())
	for _, n := range d.nodes {
		fmt.Fprintf(&b, "  %s %s", n.name, d.load.found(ctx, n))
	}
	fmt.Fprintf(&b, "\n\n%s\n", d.events)
	return b.String()
}

// newNodes returns nodes at the ports from port on, or at free ones.
func newNodes(bin, dir string, port int, events *events) ([]*node, error) {
	var all []*node
	join := ""
	for i := range nodeCount {
		n := &node{name: fmt.Sprintf("n%d", i+1), bin: bin, events: events}
		n.dir = filepath.Join(dir, n.name)
		var err error
		if n.address, err = listenAddress(port, i); err != nil {
			return nil, err
		}
		if n.bind, err = listenAddress(port, i+100); err != nil {
			return nil, err
		}
		if i > 0 {
			join += ","
		}
		join += n.name + "=" + n.bind
		all = append(all, n)
	}
	for _, n := range all {
		n.join = join
	}
	return all, nil
}

// listenAddress returns an address of this machine: a free one for port 0. It
// fails if another program has it.
func listenAddress(port, offset int) (string, error) {
	if port > 0 {
		port += offset
	}
	l, err := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port))
	if err != nil {
		return "", fmt.Errorf("%w: choose another first port with -port", err)
	}
	defer l.Close()
	return l.Addr().String(), nil
}
