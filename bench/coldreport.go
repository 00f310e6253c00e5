package main

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"time"
)

// coldReport collects what is measured of cold shards, and holds figures against bars.
type coldReport struct {
	*report
	text bytes.Buffer
	bars []bar
}

// bar is a limit of a figure.
type bar struct {
	name, limit, got string
	met              bool
}

func (r *coldReport) bar(met bool, name, limit, format string, args ...any) {
	r.bars = append(r.bars, bar{name, limit, fmt.Sprintf(format, args...), met})
}

// section begins a part of the report.
func (r *coldReport) section(title, text string) {
	fmt.Fprintf(&r.text, "\n## %s\n\n%s\n", title, text)
}

// table writes rows below their names. The first column is text, the others are numbers.
func (r *coldReport) table(names []string, rows [][]string) {
	fmt.Fprintf(&r.text, "\n| %s |\n|---%s|\n", strings.Join(names, " | "), strings.Repeat("|--:", len(names)-1))
	for _, row := range rows {
		fmt.Fprintf(&r.text, "| %s |\n", strings.Join(row, " | "))
	}
}

// missed returns an error that names the bars that are not reached.
func (r *coldReport) missed() error {
	var errs []error
	for _, b := range r.bars {
		if !b.met {
			errs = append(errs, fmt.Errorf("%s is %s, the bar is %s", b.name, b.got, b.limit))
		}
	}
	return errors.Join(errs...)
}

func (r *coldReport) write(w io.Writer) error {
	var b strings.Builder
	b.WriteString(`# Cold shards

Written by ` + "`make bench-cold`" + `. What shards in an object store cost a server ([cold.md](../cold.md)): requests, memory, disk
and CPU time. The store is a server with the API of S3 on 127.0.0.1, in the process that asks the
questions, knows the answers, and counts the requests. "CPU" is that of the server's process alone.

| | |
|---|---|
`)
	row := r.machine(&b)
	row("load average after", loadAverage())
	row("server", r.products[0].version)
	b.WriteString("\n| bar | limit | measured | reached |\n|---|---|---|---|\n")
	for _, x := range r.bars {
		reached := "yes"
		if !x.met {
			reached = "**no**"
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", x.name, x.limit, x.got, reached)
	}
	b.Write(r.text.Bytes())
	_, err := io.WriteString(w, b.String())
	return err
}

// save writes the report to a file, or to stdout.
func (r *coldReport) save(file string, stdout io.Writer) error {
	if file == "" {
		return r.write(stdout)
	}
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	return errors.Join(r.write(f), f.Close())
}

func mib(n int64) string { return fmt.Sprintf("%.1f", float64(n)/(1<<20)) }

func msText(d time.Duration) string { return fmt.Sprintf("%.2f", ms(d)) }
