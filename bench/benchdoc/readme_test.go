package main

import (
	"math"
	"os"
	"strconv"
	"strings"
	"testing"
)

// readmeRows says which line of the workload seed in docs/bench/RESULTS.md a row
// of README.md tells, and how many of the row's unit one there is.
var readmeRows = map[string]struct {
	line  string
	scale float64
}{
	"rows stored per second":                {"k rows/s", 1000},
	"CPU time per row, merges included":     {"us CPU/row until quiet", 1e-6},
	"bytes per value on disk, log included": {"bytes/value", 1},
	"start to serving":                      {"start to serving s", 1},
	"count per minute over all of it":       {"A: count per period", 1e-3},
}

// TestReadmeFigures holds the table of README.md to the measurements: each figure
// is the one there, rounded to as many digits as it has.
func TestReadmeFigures(t *testing.T) {
	readme, results := page(t, "../../README.md"), page(t, "../../docs/bench/RESULTS.md")
	_, seed, ok := strings.Cut(results, "\n## seed\n")
	if !ok {
		t.Fatal("RESULTS.md has no workload seed")
	}
	seed, _, _ = strings.Cut(seed, "\n## ")
	measured := map[string][]string{}
	for _, row := range rows(seed) {
		measured[row[0]] = row[1:]
	}
	_, table, _ := strings.Cut(readme, "One of four benchmark workloads:\n\n")
	table, claim, _ := strings.Cut(table, "\n\n")
	table += "\n"
	all := rows(table)
	if len(all) != len(readmeRows)+2 {
		t.Fatalf("README.md has a table of %d lines, want %d and its head", len(all), len(readmeRows))
	}
	for _, row := range all[2:] {
		of, ok := readmeRows[row[0]]
		have := measured[of.line]
		if !ok || len(row) != 4 || len(have) < 3 {
			t.Errorf("%s is not in RESULTS.md: %q", row[0], have)
			continue
		}
		for i, text := range row[1:] {
			told, digit := toldFigure(t, text)
			exact, err := strconv.ParseFloat(strings.Fields(have[i])[0], 64)
			if err != nil {
				t.Fatal(err)
			}
			if exact *= of.scale; math.Abs(told-exact) > digit*0.501 {
				t.Errorf("%s of %s: README.md tells %s, RESULTS.md %s %s", row[0], all[0][i+1], text, have[i], of.line)
			}
		}
	}
	// What was measured, with what, and when.
	for _, part := range strings.Split(all[0][0], ", ") {
		words := strings.Fields(part)
		if !strings.Contains(seed, words[0]+" ") {
			t.Errorf("README.md tells of %s, RESULTS.md does not", part)
		}
	}
	for _, server := range all[0][2:] {
		name, version, _ := strings.Cut(server, " ")
		version, year, _ := strings.Cut(version, " ")
		name = map[string]string{"influxd": "influxd", "VictoriaMetrics": "victoria-metrics"}[name]
		_, of, ok := strings.Cut(results, "\n| "+name+" | ")
		if of, _, _ = strings.Cut(of, " |"); !ok || name == "" || !strings.Contains(of, version) {
			t.Errorf("README.md compares with %s, RESULTS.md with %q", server, of)
		}
		if year = strings.Trim(year, "()"); !strings.Contains(strings.Join(strings.Fields(results), " "), name+" "+version+" is of "+year) {
			t.Errorf("README.md says %s is of %q, RESULTS.md does not", name, year)
		}
	}
	date := results[strings.Index(results, "| date | ")+9:][:len("2026-01-31")]
	if !strings.Contains(strings.SplitN(claim, "\n\n", 2)[0], date) {
		t.Errorf("the measurements are of %s, README.md does not say so: %s", date, claim)
	}
}

func page(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows returns the cells of the lines of tables.
func rows(text string) (all [][]string) {
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); strings.HasPrefix(line, "| ") || strings.HasPrefix(line, "|--") {
			cells := strings.Split(strings.Trim(line, "| "), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			all = append(all, cells)
		}
	}
	return all
}

// toldFigure reads a number such as 1,234,000 or 5.6 ms, and what its last digit that
// is not a filling zero counts.
func toldFigure(t *testing.T, text string) (value, digit float64) {
	t.Helper()
	number, unit, _ := strings.Cut(text, " ")
	scale, ok := map[string]float64{"": 1, "s": 1, "ms": 1e-3, "us": 1e-6}[unit]
	number = strings.ReplaceAll(number, ",", "")
	value, err := strconv.ParseFloat(number, 64)
	if err != nil || !ok {
		t.Fatalf("%q is no figure", text)
	}
	digit = scale
	if _, fraction, ok := strings.Cut(number, "."); ok {
		digit *= math.Pow10(-len(fraction))
	} else if zeros := len(number) - len(strings.TrimRight(number, "0")); zeros >= 2 {
		digit *= math.Pow10(zeros)
	}
	return value * scale, digit
}
