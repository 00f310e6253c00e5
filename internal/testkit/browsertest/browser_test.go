package browsertest

import (
	"context"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/apptest"
)

func TestMain(m *testing.M) { apptest.Main(m) }

// dataStart is the time of the first row of the data. Pictures show it.
var dataStart = time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC)

// TestStories runs each script of web/ui/test against a server of its own with the
// same data: a day of three machines in the database demo.
func TestStories(t *testing.T) {
	if testing.Short() {
		t.Skip("short: a browser takes seconds")
	}
	ui := filepath.Join("..", "..", "..", "web", "ui")
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node, which drives the browser")
	}
	browser := ""
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			browser = path
			break
		}
	}
	if browser == "" {
		t.Skip("there is no Chromium (apt-get install chromium)")
	}
	if _, err := os.Stat(filepath.Join(ui, "node_modules", "playwright-core")); err != nil {
		t.Skip("there is no playwright-core in web/ui/node_modules (cd web/ui && npm ci)")
	}
	stories, err := filepath.Glob(filepath.Join(ui, "test", "*.story.mjs"))
	if err != nil || len(stories) == 0 {
		t.Fatalf("no stories: %v", err)
	}
	for _, story := range stories {
		t.Run(strings.TrimSuffix(filepath.Base(story), ".story.mjs"), func(t *testing.T) {
			s := apptest.Start(t)
			s.Query("", "CREATE DATABASE demo")
			s.Write("demo", rows())
			ctx, cancel := context.WithTimeout(context.Background(), 8*time.Minute)
			defer cancel()
			cmd := exec.CommandContext(ctx, node, "--test", "--test-concurrency=1", filepath.Join("test", filepath.Base(story)))
			cmd.Dir = ui
			cmd.Env = append(os.Environ(), "TSDBD_URL="+s.URL, "TSDBD_BROWSER="+browser, "TSDBD_BINARY="+apptest.Binary(t))
			// The browser must not outlive the story: a page that hangs would use a
			// core for ever. node and the browser are one group of processes.
			endWithGroup(cmd)
			cmd.WaitDelay = 10 * time.Second
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Errorf("%v\n%s", err, out)
			} else {
				t.Logf("%s", out)
			}
		})
	}
}

// rows returns a day of three machines, a row a minute, with an hour missing.
func rows() string {
	var b strings.Builder
	for i := range 24 * 60 {
		at := dataStart.Add(time.Duration(i) * time.Minute)
		if at.Hour() == 14 {
			continue
		}
		for h, host := range []string{"ash", "birch", "cedar"} {
			user := 30 + 20*math.Sin(float64(i)/120+float64(h)) + 3*math.Sin(float64(i*(h+3)))
			fmt.Fprintf(&b, "cpu,host=%s,dc=north usage_user=%.2f,usage_system=%.2f %d\n", host, user, user/3, at.UnixNano())
			fmt.Fprintf(&b, "disk,host=%s,path=/ used=%di,free=%di,state=\"ok\" %d\n", host, 1000+i*(h+1), 9000-i*(h+1), at.UnixNano())
		}
	}
	return b.String()
}
