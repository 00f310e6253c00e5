package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// report is everything a comparison has measured.
type report struct {
	options  *options
	products []*product
	results  []*result
	began    time.Time
	took     time.Duration
	busy     string // load average when it began
}

func newReport(o *options, products []*product) *report {
	return &report{options: o, products: products, began: time.Now(), busy: loadAverage()}
}

// workloadTexts say what each workload is.
var workloadTexts = map[string]string{
	"devops": `Cpu metrics in the style of TSBS: 100 hosts, every 10 s for 3 days, 10 tags, 10 integer random walks: 2,592,000
rows, 25.9 M values. Then a restart and the 15 TSBS query types, one at a time, random hosts and ranges of time from a
fixed seed. Every answer in InfluxQL up to 64 KiB is checked against the generator, larger ones during the warm-up.
MetricsQL is asked what TSBS asks of it; those answers are not checked, and TSBS has none for the last four types.`,
	"month": `Thirty days of 10 hosts of devops, 2,592,000 rows, and means over all of it. InfluxQL's answers up to 64 KiB are checked,
larger ones during the warm-up; MetricsQL's windows end where InfluxQL's begin, and are not checked.`,
	"wide": `One series of 5,000 integers, 400 rows. All answers up to 64 KiB are checked, larger ones during the warm-up.`,
	"seed": `Call statistics of one-minute periods: 8,380,000 rows of two integers, 285,522 tag combinations of which 5,927
carry almost all rows. Then a restart, A: count per minute, and B: sum by minute and vCmdid; both checked, in MetricsQL
too.`,
	"hicard": `1,000,000 series of six tags, one of them unique, and one value of two decimals: three rounds of a point each. Then a
restart and queries, all of them checked.`,
	"small": `Requests of 1 to 10,000 rows of the devops kind on 1 and 8 connections. One row of the tables is of requests of 10 rows for a longer
time, its CPU time includes what is merged behind them. null-wal is the limit of net/http with one
fdatasync for the requests that wait together; behind it stands tsdbd's share of it. victoria-metrics acknowledges from
memory, tsdbd and influxd from disk.`,
	"telegraf": `What the agents of 50 hosts send in a day, with late and repeated points.`,
}

func (r *report) write(w io.Writer) error {
	o := r.options
	errs := []error{r.preface(w)}
	var behind []string
	for _, name := range strings.Split(o.workloads, ",") {
		var results []*result
		for _, res := range r.results {
			if res.workload == name {
				results = append(results, res)
			}
		}
		if len(results) == 0 {
			continue
		}
		_, err := fmt.Fprintf(w, "\n## %s\n\n%s\n\n", name, workloadTexts[name])
		errs = append(errs, err)
		var tables bytes.Buffer
		if name == "small" {
			errs = append(errs, writeSmall(&tables, results))
		} else {
			errs = append(errs, writeLoad(&tables, results))
			tables.WriteByte('\n')
			errs = append(errs, writeQueries(&tables, results))
		}
		for _, l := range behindIn(tables.String()) {
			behind = append(behind, name+": "+l)
		}
		_, err = tables.WriteTo(w)
		errs = append(errs, err)
		for _, res := range results {
			if res.err != nil {
				errs = append(errs, note(w, res, "error", fmt.Sprintf("%.500s", res.err.Error())))
			}
		}
	}
	errs = append(errs, writeGoals(w, r.results))
	if len(r.products) > 1 {
		_, err := fmt.Fprintf(w, "\n## Where a peer is better\n\n")
		errs = append(errs, err)
		if len(behind) == 0 {
			behind = []string{"nowhere"}
		}
		for _, l := range behind {
			_, err := fmt.Fprintf(w, "- %s\n", l)
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// behindIn returns the lines of tables whose last cell, how many times better
// ours is, is below 1: the line's name and that number.
func behindIn(tables string) (out []string) {
	heading := ""
	for text := range strings.Lines(tables) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(text), "|"), "|")
		name, last := strings.TrimSpace(cells[0]), strings.TrimSpace(cells[len(cells)-1])
		if last == "times better" {
			heading, _, _ = strings.Cut(name, ":")
			continue
		}
		if ratio, err := strconv.ParseFloat(last, 64); err == nil && ratio < 1 && heading != "" {
			out = append(out, fmt.Sprintf("%s, %s: %s", heading, name, last))
		}
	}
	return out
}

func (r *report) preface(w io.Writer) error {
	o := r.options
	var b strings.Builder
	fmt.Fprintf(&b, "# End-to-end measurements\n\nWritten by `make bench-e2e`. \"Disk\", \"bytes/value\" and \"bytes/series\" count everything in the data directory, the\n"+
		"write-ahead log included. [peers.md](peers.md) has the ratios to more peers, measured on another machine.\n\n")
	fmt.Fprintf(&b, "| | |\n|---|---|\n")
	row := r.machine(&b)
	row("load", fmt.Sprintf("%d connections, %d rows a request, plain text over HTTP on 127.0.0.1, made before the clock starts", o.connections, o.rows))
	row("queries", fmt.Sprintf("one at a time on one connection, the client no more than a socket and a buffer; up to 5 to warm up, then %d in %v, up to %d; slow ones at least 3", enough, queryTime, o.queries))
	fmt.Fprintf(&b, "\n| server | version | settings that differ from its defaults |\n|---|---|---|\n")
	for _, p := range r.products {
		fmt.Fprintf(&b, "| %s | %s | %s |\n", p.name, p.version, p.settings)
	}
	fmt.Fprintf(&b, `
The servers run one after another, each on an empty directory. "Quiet" is when neither the data directory nor the
server's CPU time has moved for %v, a minute after the load at the latest. Figures of memory are those of the process
in /proc. "Times better" holds tsdbd against the best peer in the line: above 1 tsdbd is better, whichever way the
figure goes. For queries it compares CPU times. Differences below 1.4 in rows/s are noise on a shared machine; CPU times
repeat better.
`, quietTime)
	_, err := io.WriteString(w, b.String())
	return err
}

// machine writes the rows that say when, where and of what a report is, and returns
// what writes more of them.
func (r *report) machine(b *strings.Builder) func(name, text string) {
	o := r.options
	row := func(name, text string) {
		if text != "" {
			fmt.Fprintf(b, "| %s | %s |\n", name, text)
		}
	}
	row("date", r.began.UTC().Format("2006-01-02 15:04 UTC"))
	row("took", r.took.Round(time.Second).String())
	row("commit", commit())
	row("machine", fmt.Sprintf("%s, %d cores, %.1f GiB, client and server on the same ones", cpuModel(), runtime.NumCPU(), float64(procMemory())/(1<<30)))
	row("kernel", strings.TrimSpace(fileText("/proc/sys/kernel/osrelease")))
	row("Go", runtime.Version()+" "+runtime.GOARCH)
	row("load average before", r.busy)
	if o.scale != 1 {
		row("scale", fmt.Sprintf("**%g of each workload: not the full ones**", o.scale))
	}
	return row
}

// loadAverage is that of the last minute.
func loadAverage() string {
	average, _, _ := strings.Cut(fileText("/proc/loadavg"), " ")
	return average
}

func fileText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// commit returns the present commit, and whether the files are as in it.
func commit() string {
	head, err := exec.Command("git", "rev-parse", "--short=12", "HEAD").Output()
	if err != nil {
		return "unknown"
	}
	text := strings.TrimSpace(string(head))
	if changed, err := exec.Command("git", "status", "--porcelain", "--untracked-files=no", "--", "*.go", "*.s", "go.mod").Output(); err == nil && len(changed) > 0 {
		text += " with local changes"
	}
	return text
}

func cpuModel() string {
	for line := range strings.Lines(fileText("/proc/cpuinfo")) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == "model name" {
			return strings.TrimSpace(v)
		}
	}
	return runtime.GOARCH
}

// procMemory returns the machine's memory in bytes.
func procMemory() int64 {
	for line := range strings.Lines(fileText("/proc/meminfo")) {
		var kb int64
		if _, err := fmt.Sscanf(line, "MemTotal: %d kB", &kb); err == nil {
			return kb << 10
		}
	}
	return 0
}
