//go:build linux

package clustertest

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

var balancers = flag.Bool("balancers", false, "have TestBalancers run HAProxy and nginx")

// balancer is a program with the configuration that docs/cluster.md shows, before the
// nodes of a cluster.
type balancer struct {
	writers, readers *node // its addresses, as if they were nodes
}

// balance starts a balancer with the block of a language of the page. command returns the
// command line for a file with that.
func balance(c *cluster, language string, command func(file string) []string, around string) *balancer {
	c.t.Helper()
	page, err := os.ReadFile("../../../docs/cluster.md")
	if err != nil {
		c.t.Fatal(err)
	}
	_, config, ok := strings.Cut(string(page), "```"+language+"\n")
	config, _, ended := strings.Cut(config, "```\n")
	if !ok || !ended {
		c.t.Fatalf("docs/cluster.md has no configuration of %s", language)
	}
	b := &balancer{writers: &node{name: language + " for writers", c: c}, readers: &node{name: language + " for readers", c: c}}
	change := map[string]string{}
	for i, n := range c.nodes {
		change[fmt.Sprintf("10.0.0.%d:8086", i+1)] = strings.TrimPrefix(n.URL, "http://")
	}
	for at, n := range map[string]*node{"127.0.0.1:8080": b.writers, "127.0.0.1:8081": b.readers} {
		address := apptest.FreeAddress(c.t)
		n.Server = &apptest.Server{URL: "http://" + address}
		change[at] = address
	}
	for from, to := range change {
		if !strings.Contains(config, from) {
			c.t.Fatalf("the configuration of %s does not have %s", language, from)
		}
		config = strings.ReplaceAll(config, from, to)
	}
	dir := c.t.TempDir()
	file := filepath.Join(dir, "config")
	text := strings.NewReplacer("CONFIG", config, "DIR", dir).Replace(around)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		c.t.Fatal(err)
	}
	args := command(file)
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		c.t.Fatal(err)
	}
	cmd := exec.Command(args[0], args[1:]...)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		c.t.Fatal(err)
	}
	c.t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = log.Close()
		if text, err := os.ReadFile(log.Name()); c.t.Failed() && err == nil {
			c.t.Logf("%s says:\n%s", language, tail(string(text)))
		}
	})
	return b
}

var nameOfNode = regexp.MustCompile(`"(n[123])"`)

// answers returns the name of the node that answers behind an address.
func (n *node) answers() (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	a, err := n.query(ctx, "", "SHOW DIAGNOSTICS FOR 'cluster'")
	if err != nil || a.status != http.StatusOK {
		return "", fmt.Errorf("%d %.200s %w", a.status, a.body, err)
	}
	name := nameOfNode.FindStringSubmatch(a.body)
	if name == nil {
		return "", errors.New(a.body)
	}
	return name[1], nil
}

// TestBalancers runs HAProxy and nginx as docs/cluster.md shows them. Writers reach all
// nodes, readers the same one each time; a client that sends positions back reads its own
// writes. The leader and the node of the readers are killed, and one hangs: what was
// acknowledged is there, and both go on without help.
func TestBalancers(t *testing.T) {
	if !*balancers {
		t.Skip("run by make cluster-balancers")
	}
	for _, kind := range []struct {
		name, around string
		command      func(file string) []string
		asks         bool // it notices a node that hangs
	}{
		{"haproxy", "global\n    maxconn 1000\nCONFIG", func(file string) []string { return []string{"haproxy", "-db", "-f", file} }, true},
		{
			"nginx", "daemon off; master_process off; pid DIR/pid; error_log stderr;\nevents {}\nhttp {\naccess_log off; client_body_temp_path DIR/body; proxy_temp_path DIR/proxy; " +
				"fastcgi_temp_path DIR/f; uwsgi_temp_path DIR/u; scgi_temp_path DIR/s;\nCONFIG}\n",
			func(file string) []string { return []string{"nginx", "-e", "stderr", "-c", file} }, false,
		},
	} {
		t.Run(kind.name, func(t *testing.T) {
			if _, err := exec.LookPath(kind.name); err != nil {
				t.Skipf("NOT TESTED: %s is not installed: apt install %s", kind.name, kind.name)
			}
			c := start(t, setup{nodes: 3})
			b := balance(c, kind.name, kind.command, kind.around)
			b.writers.must("", "CREATE DATABASE db")
			c.healthy()

			b.spread()
			big := "# " + strings.Repeat("x", 2<<20) // more than nginx takes by itself
			for i := range 30 {
				at := b.writers.write("db", fmt.Sprintf("own v=%di %d\n%s", i, i+1, big[:i%2*len(big)]))
				if n, err := b.writers.count("db", "SELECT count(v) FROM own", at); err != nil || n != int64(i+1) {
					c.fatalf("after %d writes a query with the position counts %d: %v", i+1, n, err)
				}
			}

			acknowledged := int64(0)
			written := func(n int64) {
				t.Helper()
				for range n {
					acknowledged++
					b.writers.write("db", fmt.Sprintf("m v=%di %d", acknowledged, acknowledged))
				}
			}
			all := func(n *node) {
				t.Helper()
				c.await("all points", func() error {
					got, err := n.count("db", "SELECT count(v) FROM m", 0)
					if err == nil && got != acknowledged {
						err = fmt.Errorf("%d of %d", got, acknowledged)
					}
					return err
				})
			}
			c.healthy()
			for _, victim := range []string{"leader", "readers"} {
				n := c.leader()
				if victim == "readers" {
					name, err := b.readers.answers()
					if err != nil {
						c.fatalf("%v", err)
					}
					n = c.named(name)
				}
				written(10)
				n.Kill()
				written(50)
				all(b.readers)
				c.restart(n)
				c.healthy()
				all(n)
			}
			if kind.asks {
				name, err := b.readers.answers()
				if err != nil {
					c.fatalf("%v", err)
				}
				n := c.named(name)
				n.Signal(syscall.SIGSTOP)
				written(20)
				all(b.readers)
				n.Signal(syscall.SIGCONT)
				c.healthy()
				all(n)
			}
			c.await("all nodes behind the balancer", b.spreads)
			c.verify()
			c.stop()
		})
	}
}

// spread waits until the balancer knows all nodes, and checks that readers stay at one.
func (b *balancer) spread() {
	c := b.writers.c
	c.t.Helper()
	c.await("all nodes behind the balancer", b.spreads)
	first, err := b.readers.answers()
	for range 20 {
		var name string
		if err == nil {
			name, err = b.readers.answers()
		}
		if err != nil || name != first {
			c.fatalf("readers reach %s and then %s: %v", first, name, err)
		}
	}
}

// spreads returns an error unless all nodes answer writers.
func (b *balancer) spreads() error {
	seen := url.Values{}
	for range 12 {
		name, err := b.writers.answers()
		if err != nil {
			return err
		}
		seen.Add(name, "")
	}
	if len(seen) != 3 {
		return fmt.Errorf("requests of writers reach %v", seen)
	}
	return nil
}
