package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"
)

// bench runs the whole: load, settle, queries; and prints the report.
func bench(ctx context.Context, o *options, w workload, out io.Writer) error {
	c := &client{http: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: o.connections}}, url: o.url, db: o.database}
	bodies, rows, size := collect(w, o.rows)
	fmt.Fprintf(out, "| figure | value |\n|---|---|\n")
	if !o.keep {
		for _, q := range []string{"DROP DATABASE %s", "CREATE DATABASE %s"} {
			if _, err := c.post(ctx, "/query", url.Values{"q": {fmt.Sprintf(q, strconv.Quote(o.database))}}, nil); err != nil {
				return err
			}
		}
		before := usage(o.pid)
		start := time.Now()
		if err := c.load(ctx, bodies, o.connections); err != nil {
			return err
		}
		took := time.Since(start)
		after := usage(o.pid)
		fmt.Fprintf(out, "| rows | %d |\n| load | %.2f s, %.0f k rows/s, %.1f MB/s |\n", rows, took.Seconds(), float64(rows)/took.Seconds()/1e3, float64(size)/took.Seconds()/1e6)
		if o.pid > 0 {
			fmt.Fprintf(out, "| server CPU to the last acknowledgement | %.2f s, %.3f us/row |\n", (after.cpu - before.cpu).Seconds(), (after.cpu-before.cpu).Seconds()*1e6/float64(rows))
		}
		if o.data != "" {
			fmt.Fprintf(out, "| disk after the load | %.1f MB |\n", float64(diskBytes(o.data))/1e6)
		}
		if err := settle(ctx, o, before, rows, out); err != nil {
			return err
		}
	}
	if o.pid > 0 {
		u := usage(o.pid)
		fmt.Fprintf(out, "| peak resident / anonymous now | %.0f / %.0f MB |\n", float64(u.peak)/1e6, float64(u.anon)/1e6)
	}
	for _, q := range w.queries() {
		if err := c.measure(ctx, q, o.queries, out); err != nil {
			return err
		}
	}
	return nil
}

// collect makes all request bodies beforehand, so that the load's time is the
// server's.
func collect(w workload, n int) (bodies [][]byte, rows int, size int64) {
	for {
		body, k := w.next(nil, n)
		if k == 0 {
			return bodies, rows, size
		}
		bodies = append(bodies, body)
		rows += k
		size += int64(len(body))
	}
}

// settle waits until the data directory has not changed for a while.
func settle(ctx context.Context, o *options, before resources, rows int, out io.Writer) error {
	if o.settle == 0 || o.data == "" {
		return nil
	}
	deadline := time.Now().Add(o.settle)
	last, quiet := listing(o.data), time.Now()
	for time.Now().Before(deadline) && time.Since(quiet) < min(15*time.Second, o.settle/2) {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(500 * time.Millisecond):
		}
		if now := listing(o.data); now != last {
			last, quiet = now, time.Now()
		}
	}
	fmt.Fprintf(out, "| disk settled | %.1f MB, without the log %.1f MB |\n", float64(diskBytes(o.data))/1e6, float64(diskBytes(o.data)-diskBytes(filepath.Join(o.data, "wal")))/1e6)
	if o.pid > 0 {
		cpu := usage(o.pid).cpu - before.cpu
		fmt.Fprintf(out, "| server CPU settled | %.2f s, %.3f us/row |\n", cpu.Seconds(), cpu.Seconds()*1e6/float64(rows))
	}
	return nil
}

type client struct {
	http    *http.Client
	url, db string
}

func (c *client) post(ctx context.Context, path string, params url.Values, body []byte) ([]byte, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+path+"?"+params.Encode(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode/100 != 2 {
		return nil, fmt.Errorf("%s: %s: %s", path, resp.Status, bytes.TrimSpace(b))
	}
	return b, nil
}

// load sends the bodies in order, some at a time; a 503 is tried again.
func (c *client) load(ctx context.Context, bodies [][]byte, connections int) error {
	work := make(chan []byte)
	errs := make(chan error, connections)
	var wg sync.WaitGroup
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for range connections {
		wg.Go(func() {
			for body := range work {
				for {
					_, err := c.post(ctx, "/write", url.Values{"db": {c.db}}, body)
					if err != nil && strings.Contains(err.Error(), "503") && ctx.Err() == nil {
						time.Sleep(20 * time.Millisecond)
						continue
					}
					if err != nil {
						errs <- err
						cancel()
						return
					}
					break
				}
			}
		})
	}
feed:
	for _, body := range bodies {
		select {
		case work <- body:
		case <-ctx.Done():
			break feed
		}
	}
	close(work)
	wg.Wait()
	select {
	case err := <-errs:
		return err
	default:
		return ctx.Err()
	}
}

// measure asks a query some times, checks the first answer and prints times.
func (c *client) measure(ctx context.Context, q query, times int, out io.Writer) error {
	var took []time.Duration
	size := 0
	for i := range times {
		start := time.Now()
		b, err := c.post(ctx, "/query", url.Values{"db": {c.db}, "epoch": {"ns"}, "q": {q.text}}, nil)
		if err != nil {
			return fmt.Errorf("%s: %w", q.name, err)
		}
		took = append(took, time.Since(start))
		size = len(b)
		if i > 0 {
			continue
		}
		a, err := parseAnswer(b)
		if err == nil && q.check != nil {
			err = q.check(a)
		}
		if err != nil {
			return fmt.Errorf("%s: wrong answer: %w", q.name, err)
		}
	}
	first := took[0]
	slices.Sort(took)
	fmt.Fprintf(out, "| %s | median %.2f ms, best %.2f, first %.2f (n=%d, %d B) |\n", q.name, ms(took[len(took)/2]), ms(took[0]), ms(first), len(took), size)
	return nil
}

func ms(d time.Duration) float64 { return d.Seconds() * 1e3 }

// answer is a decoded result: the first statement's series, each row's time
// and the integer in its second column.
type answer struct{ series []answerSeries }

type answerSeries struct {
	tags map[string]string
	rows []answerRow
}

type answerRow struct{ time, value int64 }

func (a *answer) rows() int {
	n := 0
	for _, s := range a.series {
		n += len(s.rows)
	}
	return n
}

func (a *answer) String() string { return fmt.Sprint(a.series) }

func parseAnswer(b []byte) (*answer, error) {
	var doc struct {
		Results []struct {
			Error  string
			Series []struct {
				Tags   map[string]string
				Values [][]json.RawMessage
			}
		}
		Error string
	}
	if err := json.Unmarshal(b, &doc); err != nil {
		return nil, err
	}
	if doc.Error != "" || len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return nil, fmt.Errorf("server says %.300s", b)
	}
	a := &answer{}
	for _, s := range doc.Results[0].Series {
		as := answerSeries{tags: s.Tags}
		for _, row := range s.Values {
			t, err := strconv.ParseInt(string(row[0]), 10, 64)
			if err != nil {
				return nil, err
			}
			v, _ := strconv.ParseInt(string(row[1]), 10, 64) // other types: not checked
			as.rows = append(as.rows, answerRow{t, v})
		}
		a.series = append(a.series, as)
	}
	return a, nil
}

// resources of a process.
type resources struct {
	cpu        time.Duration
	peak, anon int64
}

func usage(pid int) (r resources) {
	if pid <= 0 {
		return r
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return r
	}
	if _, after, ok := bytes.Cut(stat, []byte(") ")); ok {
		f := strings.Fields(string(after))
		user, _ := strconv.ParseInt(f[11], 10, 64)
		system, _ := strconv.ParseInt(f[12], 10, 64)
		r.cpu = time.Duration(user+system) * (time.Second / 100)
	}
	status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	for line := range strings.Lines(string(status)) {
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		kb, _ := strconv.ParseInt(f[1], 10, 64)
		switch f[0] {
		case "VmHWM:":
			r.peak = kb << 10
		case "RssAnon:":
			r.anon = kb << 10
		}
	}
	return r
}

// diskBytes returns the allocated bytes below dir.
func diskBytes(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil {
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			return err
		}
		if info, err := d.Info(); err == nil {
			if st, ok := info.Sys().(*syscall.Stat_t); ok {
				n += st.Blocks * 512
			}
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
