package main

import (
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"tsdbd/backup"
)

// isTerminal tells whether somebody reads what is written to w.
func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	if !ok {
		return false
	}
	st, err := f.Stat()
	return err == nil && st.Mode()&os.ModeCharDevice != 0
}

// progress shows a line that replaces itself on a terminal, and nothing
// elsewhere.
type progress struct {
	mu   sync.Mutex
	w    io.Writer
	live bool
	told time.Time
	last int
}

func newProgress(w io.Writer) *progress {
	return &progress{w: w, live: isTerminal(w)}
}

func (p *progress) show(format string, args ...any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.live || time.Since(p.told) < 100*time.Millisecond {
		return
	}
	p.told = time.Now()
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

func mib(n int64) string { return fmt.Sprintf("%.1fMiB", float64(n)/(1<<20)) }
