package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"time"
)

// resources a process has used.
type resources struct {
	cpu        time.Duration
	peak, anon int64 // bytes: most that was resident, anonymous now
	written    int64 // bytes to disk
}

// usage reads the resources of a process; zero if there is none.
func usage(pid int) (r resources) {
	if pid <= 0 {
		return r
	}
	r.cpu = cpuTime(pid)
	r.peak = procField(pid, "status", "VmHWM:") << 10
	r.anon = procField(pid, "status", "RssAnon:") << 10
	r.written = procField(pid, "io", "write_bytes:")
	return r
}

// procField returns the number behind a name in a file of /proc.
func procField(pid int, file, name string) int64 {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == name {
			n, _ := strconv.ParseInt(f[1], 10, 64)
			return n
		}
	}
	return 0
}

// watch samples a process's anonymous memory until the returned function is
// called, which returns the most it has seen.
func watch(pid int) func() int64 {
	var peak int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		tick := time.NewTicker(50 * time.Millisecond)
		defer tick.Stop()
		for {
			peak = max(peak, procField(pid, "status", "RssAnon:")<<10)
			select {
			case <-stop:
				return
			case <-tick.C:
			}
		}
	})
	return func() int64 {
		close(stop)
		wg.Wait()
		return peak
	}
}

// diskBytes returns the allocated bytes below dir.
func diskBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil // removed meanwhile
			}
			return err
		}
		if info, err := d.Info(); err == nil {
			n += allocated(info)
		}
		return nil
	})
	return n
}

// listing describes the files below dir, to see whether anything moves.
func listing(dir string) string {
	var b strings.Builder
	_ = filepath.WalkDir(dir, func(p string, d fs.DirEntry, err error) error {
		if err == nil {
			if info, err := d.Info(); err == nil {
				fmt.Fprintln(&b, p, info.Size())
			}
		}
		return nil
	})
	return b.String()
}
