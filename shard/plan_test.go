package shard

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/script"
	"tsdbd/internal/testkit/testseed"
)

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

// TestPlanScripts runs testdata/plan*.txt: the input of a command is the files of a
// shard, one a line. "warm" and "cold" show the next merge; "warm all" and "cold
// all" all merges to the end.
func TestPlanScripts(t *testing.T) {
	script.Run(t, "testdata/plan*.txt", func(t *testing.T) func(script.Command) []string {
		return func(c script.Command) []string {
			var files []planFile
			for _, line := range c.Input {
				f, err := parsePlanFile(line)
				if err != nil {
					t.Fatal(err)
				}
				files = append(files, f)
			}
			return plans(c.Name == "cold", len(c.Args) > 0, files)
		}
	})
}

// plans returns the next merge, or all of them and what is left.
func plans(cold, all bool, files []planFile) (out []string) {
	for range 100 {
		lo, hi, level := plan(files, cold)
		if lo == hi {
			break
		}
		next, read, written := merged(files, lo, hi, level)
		out = append(out, fmt.Sprintf("%d-%d to L%d: read %s, write %s", lo, hi, level, sizeText(read), sizeText(written)))
		files = next
		if !all {
			return out
		}
	}
	if all {
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
	if out == nil {
		return []string{"nothing"}
	}
	return out
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
