package shard

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

var rewrite = flag.Bool("rewrite", false, "write the outputs of the scripts in testdata anew")

// parsePlanFile reads "L<level> <size> [part] [damaged] [rows=n] [hidden=n] [tombstones=n]".
func parsePlanFile(line string) (f planFile, err error) {
	for i, w := range strings.Fields(line) {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch {
		case i == 0:
			_, err = fmt.Sscanf(w, "L%d", &f.level)
		case i == 1:
			unit := map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[w[len(w)-1]]
			f.size, err = strconv.ParseInt(w[:len(w)-1], 10, 64)
			f.size *= unit
		case w == "part":
			f.part = true
		case w == "damaged":
			f.damaged = true
		case name == "rows":
			f.rows = n
		case name == "hidden":
			f.hidden = n
		case name == "tombstones":
			f.tombstones = int(n)
		default:
			err = fmt.Errorf("%q", w)
		}
		if err != nil {
			return f, fmt.Errorf("line %q: %w", line, err)
		}
	}
	return f, nil
}

func sizeText(n int64) string {
	for _, u := range []struct {
		bytes int64
		name  string
	}{{1 << 30, "G"}, {1 << 20, "M"}} {
		if n >= 10*u.bytes || n >= u.bytes && n%u.bytes == 0 {
			return fmt.Sprint(n/u.bytes, u.name)
		}
	}
	return fmt.Sprint(n>>10, "K")
}

// merged does what a merge would: the runs [lo, hi) become one, split by size,
// without the rows that were hidden.
func merged(files []planFile, lo, hi, level int) (out []planFile, read, written int64) {
	var size, rows int64
	for _, f := range files[lo:hi] {
		read += f.size
		if left := f.rows - f.hidden; f.rows > 0 {
			size += f.size * left / f.rows
			rows += left
		} else {
			size += f.size
		}
	}
	written = size
	out = append(out, files[:lo]...)
	part := hi-lo == 1 && files[lo].part
	for n := int64(0); size > 0; n++ {
		f := planFile{size: min(size, 2<<30), level: level, part: part || n > 0}
		if n == 0 {
			f.rows = rows
		}
		out = append(out, f)
		size -= f.size
	}
	head := len(out)
	out = append(out, files[hi:]...)
	if written == 0 && !part && head < len(out) {
		out[head].part = false // nothing was left of the run's first file
	}
	return out, read, written
}

// TestPlanScripts runs testdata/plan*.txt: a sentence, then a command, files
// one per line, "----" and the output, separated by empty lines. "warm" and
// "cold" show the next merge; "warm all" and "cold all" all merges to the end.
func TestPlanScripts(t *testing.T) {
	names, err := filepath.Glob("testdata/plan*.txt")
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	for _, name := range names {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		cases := strings.Split(strings.TrimRight(string(b), "\n"), "\n\n")
		out := []string{cases[0]}
		for _, c := range cases[1:] {
			input, want, _ := strings.Cut(c, "\n----")
			want = strings.TrimPrefix(want, "\n")
			lines := strings.Split(input, "\n")
			for len(lines) > 0 && strings.HasPrefix(lines[0], "#") {
				lines = lines[1:]
			}
			var files []planFile
			for _, line := range lines[1:] {
				f, err := parsePlanFile(line)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				files = append(files, f)
			}
			got := runScript(lines[0], files)
			if got != want && !*rewrite {
				t.Errorf("%s:\n%s\n----\n%s\nwant\n%s", name, input, got, want)
			}
			out = append(out, input+"\n----\n"+got)
		}
		if *rewrite {
			if err := os.WriteFile(name, []byte(strings.Join(out, "\n\n")+"\n"), 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
}

func runScript(command string, files []planFile) string {
	kind, all, _ := strings.Cut(command, " ")
	var out []string
	for range 100 {
		lo, hi, level := plan(files, kind == "cold")
		if lo == hi {
			break
		}
		next, read, written := merged(files, lo, hi, level)
		out = append(out, fmt.Sprintf("%d-%d to L%d: read %s, write %s", lo, hi, level, sizeText(read), sizeText(written)))
		files = next
		if all == "" {
			return out[0]
		}
	}
	if all != "" {
		var left []string
		for _, f := range files {
			s := fmt.Sprintf("L%d %s", f.level, sizeText(f.size))
			if f.part {
				s += " part"
			}
			left = append(left, s)
		}
		out = append(out, "left: "+strings.Join(left, ", "))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, "\n")
}

// TestPlanEnds has flushes and deletes come while merges run, in shards that
// are warm and cold by turns: merges must come to an end after each of them,
// neighbours never be skipped, and all they write stay in proportion to what
// was flushed. Deletes that hide little, again and again, are among them.
func TestPlanEnds(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	worst := 0.0
	for range 100 {
		var files []planFile
		var flushed, written int64
		cold, deletes := false, r.IntN(2) == 0
		largest := []int64{1 << 20, 64 << 20, 3 << 30}[r.IntN(3)]
		for range 300 {
			size := 1 + r.Int64N(largest)
			files = append(files, planFile{size: size, rows: 1 + size/16})
			flushed += size
			if deletes && r.IntN(3) == 0 {
				for i := range files {
					files[i].tombstones++
					if r.IntN(2) == 0 {
						files[i].hidden = min(files[i].rows, files[i].hidden+r.Int64N(1+files[i].rows/int64(1+r.IntN(200))))
					}
				}
			}
			if r.IntN(100) == 0 && len(files) > 0 {
				files[r.IntN(len(files))].damaged = true
			}
			cold = r.IntN(20) == 0
			steps := 0
			for {
				lo, hi, level := plan(files, cold)
				if lo == hi {
					break
				}
				for _, f := range files[lo:hi] {
					if f.damaged {
						t.Fatal("a damaged file is merged")
					}
				}
				if hi-lo > 1 && (files[lo].part || hi < len(files) && files[hi].part) {
					t.Fatalf("a run is cut: %d-%d of %+v", lo, hi, files)
				}
				before := len(files)
				next, _, w := merged(files, lo, hi, level)
				files = next
				written += w
				if steps++; steps > 2*before+2 {
					t.Fatalf("%d files: still merging after %d steps", before, steps)
				}
			}
		}
		amplification := float64(written+flushed) / float64(flushed)
		worst = max(worst, amplification)
		if amplification > 40 {
			t.Errorf("files of up to %s, deletes %v: %.1f bytes written per byte flushed", sizeText(largest), deletes, amplification)
		}
	}
	t.Logf("at most %.1f bytes written per byte flushed", worst)
}
