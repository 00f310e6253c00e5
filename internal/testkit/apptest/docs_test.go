//go:build linux

package apptest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// docBlock is a fenced block of a document.
type docBlock struct {
	line     int
	language string
	text     string
	marks    map[string]string // of the comment before it: "not run", "server", "nodes", "stopped", "needs"
}

var docMark = regexp.MustCompile(`^<!-- (not run|server|nodes|stopped|needs)(?::? (.*))? -->$`)

// docBlocks takes the fenced blocks out of a document. A block that
// follows another with nothing between them is marked "after".
func docBlocks(t *testing.T, path string) []docBlock {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var blocks []docBlock
	var open *docBlock
	var previous string // the last line that is not empty
	n := 0
	marks := map[string]string{}
	for line := range strings.Lines(string(text)) {
		n++
		line = strings.TrimRight(line, "\n")
		switch {
		case open != nil && line == "```":
			blocks = append(blocks, *open)
			open, previous = nil, "```"
		case open != nil:
			open.text += line + "\n"
		case strings.HasPrefix(line, "```"):
			open = &docBlock{line: n, language: strings.TrimPrefix(line, "```"), marks: marks}
			if previous == "```" {
				open.marks["after"] = "a block"
			}
			marks = map[string]string{}
		case docMark.MatchString(line):
			m := docMark.FindStringSubmatch(line)
			marks[m[1]] = m[2]
			previous = line
		case line != "":
			marks = map[string]string{}
			previous = line
			// What is typed belongs into a block that is run.
			if regexp.MustCompile(`^    (curl|tsdbd|bin/tsdbd|influx|telegraf) `).MatchString(line) {
				t.Errorf("%s:%d: a command that is not in a block of sh", path, n)
			}
		}
	}
	if open != nil {
		t.Errorf("%s:%d: a block without an end", path, open.line)
	}
	return blocks
}

// docPage runs the commands of one document.
type docPage struct {
	t      *testing.T
	path   string
	dir    string // where commands run
	server *Server
	nodes  []string // free addresses in place of those in nodeAddresses
}

// nodeAddresses are the addresses of nodes that a page starts itself.
var nodeAddresses = []string{
	"127.0.0.1:8086", "127.0.0.1:8087", "127.0.0.1:8088", "127.0.0.1:8089",
	"127.0.0.1:8186", "127.0.0.1:8187", "127.0.0.1:8188", "127.0.0.1:8189",
}

// TestDocs runs every block of commands in README.md and docs against a server
// of the page's own, in an empty directory, and compares what they print with
// the block of text or json that follows, where "..." stands for anything. A
// comment before a block says what is special: "not run: REASON", "server" for
// one that runs on, "nodes" for the first of a page that starts all its servers
// in the background, "stopped" for one that needs the server down, "needs
// PROGRAM".
func TestDocs(t *testing.T) {
	pages, err := filepath.Glob("../../../docs/*.md")
	if err != nil || len(pages) < 8 {
		t.Fatal(pages, err)
	}
	for _, path := range append(pages, "../../../README.md") {
		blocks := docBlocks(t, path)
		t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
			t.Parallel()
			p := &docPage{t: t, path: path, dir: t.TempDir()}
			for i := range blocks {
				b := &blocks[i]
				p.check(b)
				if b.language != "sh" {
					continue
				}
				if reason, ok := b.marks["not run"]; ok {
					if len(reason) < 10 {
						t.Errorf("%s:%d: not run without a reason", path, b.line)
					}
					continue
				}
				if program, ok := b.marks["needs"]; ok {
					if _, err := exec.LookPath(program); err != nil {
						t.Logf("%s:%d: %s is not installed", path, b.line, program)
						continue
					}
				}
				if _, own := b.marks["nodes"]; own {
					for range nodeAddresses {
						p.nodes = append(p.nodes, FreeAddress(t))
					}
				}
				var want *docBlock
				if i+1 < len(blocks) && blocks[i+1].marks["after"] != "" && (blocks[i+1].language == "text" || blocks[i+1].language == "json") {
					want = &blocks[i+1]
				}
				p.run(b, want)
			}
		})
	}
}

// check looks at a block that is not run.
func (p *docPage) check(b *docBlock) {
	switch b.language {
	case "toml":
		if strings.Contains(b.text, "[[outputs") || strings.Contains(b.text, "[agent]") {
			return // Telegraf's
		}
		file := filepath.Join(p.t.TempDir(), "tsdbd.toml")
		if err := os.WriteFile(file, []byte(b.text), 0o600); err != nil {
			p.t.Fatal(err)
		}
		if out, err := exec.Command(Binary(p.t), "config", "-config", file).CombinedOutput(); err != nil {
			p.t.Errorf("%s:%d: %v\n%s", p.path, b.line, err, out)
		}
	case "":
		for line := range strings.Lines(b.text) {
			if regexp.MustCompile(`^(curl|tsdbd|influx|make) `).MatchString(line) {
				p.t.Errorf("%s:%d: commands in a block that is not of sh: %s", p.path, b.line, line)
			}
		}
	}
}

// start starts the page's server, if there is none yet.
func (p *docPage) start() {
	if p.server != nil || p.nodes != nil {
		return
	}
	p.server = New(p.t)
	p.server.Dir = filepath.Join(p.dir, "var", "lib", "tsdbd")
	if err := os.MkdirAll(p.server.Dir, 0o700); err != nil {
		p.t.Fatal(err)
	}
	p.server.Restart()
}

// local puts the page's server and directory in place of those in a text.
func (p *docPage) local(text string) string {
	if p.nodes != nil {
		for i, address := range nodeAddresses {
			text = strings.ReplaceAll(text, address, p.nodes[i])
		}
		return text
	}
	host, port, _ := strings.Cut(p.server.addr, ":")
	return strings.NewReplacer("127.0.0.1:8086", p.server.addr, "-port 8086", "-port "+port, "-host 127.0.0.1 ", "-host "+host+" ",
		"/var/lib/tsdbd", p.dir+"/var/lib/tsdbd", "/backups", p.dir+"/backups", "/etc/tsdbd", p.dir+"/etc/tsdbd").Replace(text)
}

// command prepares a block of commands.
func (p *docPage) command(ctx context.Context, text string) *exec.Cmd {
	bin := Binary(p.t)
	link := filepath.Join(p.dir, "bin", "tsdbd")
	if _, err := os.Lstat(link); err != nil {
		if err := errors.Join(os.MkdirAll(filepath.Dir(link), 0o700), os.Symlink(bin, link)); err != nil {
			p.t.Fatal(err)
		}
	}
	text = strings.ReplaceAll(text, "go run ./cmd/tsdbd", "tsdbd") // which has been built from it
	cmd := exec.CommandContext(ctx, "bash", "-euo", "pipefail", "-c", text)
	cmd.Dir = p.dir
	cmd.Env = append(os.Environ(), "PATH="+filepath.Dir(link)+":"+os.Getenv("PATH"), "HOME="+p.dir, "LC_ALL=C.UTF-8")
	if p.nodes != nil {
		cmd.Env = append(cmd.Env, "TSDBD_CLUSTER_ELECTION_TIMEOUT=5s") // one node leads, on a slow machine too
	} else {
		cmd.Env = append(cmd.Env, "TSDBD_HTTP_BIND_ADDRESS="+p.server.addr, "TSDBD_HOST="+p.server.addr)
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL, Setpgid: true}
	return cmd
}

// run runs a block and compares what it prints.
func (p *docPage) run(b, want *docBlock) {
	p.t.Helper()
	if _, own := b.marks["server"]; own {
		p.serve(b)
		return
	}
	p.start()
	if _, stopped := b.marks["stopped"]; stopped {
		p.server.Stop()
		defer p.server.Restart()
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	cmd := p.command(ctx, p.local(b.text))
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if p.nodes != nil {
		p.t.Cleanup(func() { endGroup(cmd.Process.Pid) }) // what it has started
	}
	if err != nil {
		p.t.Errorf("%s:%d: %v\n%s%s", p.path, b.line, err, out, errs.String())
		return
	}
	if strings.Contains(string(out), `"error":`) && want == nil {
		p.t.Errorf("%s:%d: %s", p.path, b.line, out)
	}
	if want == nil {
		return
	}
	got, wanted := string(out), p.local(want.text)
	if p.nodes != nil { // the columns of tables are as wide as the addresses
		got, wanted = columns.ReplaceAllString(got, "  "), columns.ReplaceAllString(wanted, "  ")
	}
	if err := sameOutput(want.language, got, wanted); err != nil {
		p.t.Errorf("%s:%d: %v", p.path, b.line, err)
	}
}

// endGroup kills the processes of a group and waits until they are gone.
func endGroup(group int) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if errors.Is(syscall.Kill(-group, syscall.SIGKILL), syscall.ESRCH) {
			return
		}
	}
}

var columns = regexp.MustCompile(` {2,}`)

// serve runs a block that is a server until the page ends.
func (p *docPage) serve(b *docBlock) {
	p.t.Helper()
	if p.server != nil {
		p.t.Errorf("%s:%d: there is a server already", p.path, b.line)
		return
	}
	p.server = New(p.t)
	p.server.begin(p.command(context.Background(), "exec "+p.local(b.text)))
	if err := p.server.Await(); err != nil {
		p.t.Fatal(err)
	}
}

// sameOutput compares what commands printed with what a document shows: text
// line by line, JSON by value, one document after the other.
func sameOutput(language, got, want string) error {
	if language == "json" {
		g, err := documents(got)
		if err != nil {
			return fmt.Errorf("%w in\n%s", err, got)
		}
		w, err := documents(want)
		if err != nil {
			return fmt.Errorf("%w in\n%s", err, want)
		}
		if g != w {
			return fmt.Errorf("printed\n%s\nnot\n%s", got, want)
		}
		return nil
	}
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, `.*`)
	if !regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(trimLines(got))) {
		return fmt.Errorf("printed\n%s\nnot\n%s", got, want)
	}
	return nil
}

// trimLines removes spaces at the ends of lines, which documents do not keep.
func trimLines(s string) string {
	return regexp.MustCompile(`(?m) +$`).ReplaceAllString(s, "")
}

// documents writes JSON documents in one way.
func documents(text string) (string, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out strings.Builder
	for d.More() {
		var v any
		if err := d.Decode(&v); err != nil {
			return "", err
		}
		b, err := json.Marshal(v)
		if err != nil {
			return "", err
		}
		out.Write(append(b, '\n'))
	}
	return out.String(), nil
}

// TestDocsCanFail holds the comparison to examples.
func TestDocsCanFail(t *testing.T) {
	f := func(language, got, want string, same bool) {
		t.Helper()
		if err := sameOutput(language, got, want); (err == nil) != same {
			t.Errorf("%q and %q: %v", got, want, err)
		}
	}
	f("text", "a 1 b \nc\n", "a ... b\nc\n", true)
	f("text", "a 1 b\nd\n", "a ... b\nc\n", false)
	f("text", "a 1 b\nc\nd", "a ... b\nc\n", false)
	f("json", `{"a":1,"b":[1,2]}`+"\n{}", `{"b": [1, 2], "a": 1} {}`, true)
	f("json", `{"a":1}`, `{"a":2}`, false)
	f("json", `{"a":1}{}`, `{"a":1}`, false)
	f("json", `{"a":`, `{"a":1}`, false)
}
