package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tsdbd/backup"

	"golang.org/x/term"
)

// progress shows a line that replaces itself on a terminal, and nothing
// elsewhere.
type progress struct {
	mu    sync.Mutex
	w     io.Writer
	live  bool
	shown time.Time
	last  int
}

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	return &progress{w: w, live: ok && term.IsTerminal(int(f.Fd()))}
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || time.Since(p.shown) < 100*time.Millisecond {
		return
	}
	p.shown = time.Now()
	text := fmt.Sprintf(format, args...)
	fmt.Fprintf(p.w, "\r%-*s", p.last, text)
	p.last = len(text)
}

// clear removes the line.
func (p *progress) clear() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.last > 0 {
		fmt.Fprintf(p.w, "\r%*s\r", p.last, "")
		p.last = 0
	}
}

// copied shows how far a copy of files is.
func (p *progress) copied(x backup.Progress) {
	percent := 100.0
	if x.Bytes > 0 {
		percent = 100 * float64(x.BytesDone) / float64(x.Bytes)
	}
	p.show("%5.1f%%  %s of %s  %d of %d objects  %s there already", percent, mib(x.BytesDone), mib(x.Bytes), x.ObjectsDone, x.Objects, mib(x.Reused))
}

// checked shows how far the check of a backup is.
func (p *progress) checked(name string, x backup.Progress) {
	p.show("backup %s  %s%s of %s", name, pace(x.BytesDone, x.Bytes, 0, 0), mib(x.BytesDone), mib(x.Bytes))
}

// during shows, once a second until the returned function is called, how long
// something has lasted.
func (p *progress) during(format string) (stop func()) {
	begin, done := time.Now(), make(chan struct{})
	go func() {
		ticker := time.NewTicker(time.Second)
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
				p.show(format, time.Since(begin).Round(time.Second))
			case <-done:
				return
			}
		}
	}()
	return sync.OnceFunc(func() { close(done); p.clear() })
}

// pace returns the share of a work that is done, its rate, and the time that is
// left, as far as they can be known: total is 0 if it is not.
func pace(done, total, points int64, took time.Duration) string {
	var text string
	if total > 0 {
		text = fmt.Sprintf("%5.1f%%  ", 100*float64(done)/float64(total))
	}
	if took >= time.Second {
		text += fmt.Sprintf("%.0f/s  ", float64(points)/took.Seconds())
		if total > 0 && done > 0 {
			left := time.Duration(float64(took) * float64(total-done) / float64(done))
			text += fmt.Sprintf("%s left  ", left.Round(time.Second))
		}
	}
	return text
}

func mib(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
