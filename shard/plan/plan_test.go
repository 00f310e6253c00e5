package plan

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/testkit/script"
	"tsdbd/internal/testkit/testseed"
)

// parsePlanFile reads "L<level> <size> [part] [damaged] [atmove] [cold] [purge] [rows=n] [hidden=n] [tombstones=n] [moves=n]".
func parsePlanFile(line string) (f File, err error) {
	for i, w := range strings.Fields(line) {
		name, value, _ := strings.Cut(w, "=")
		n, _ := strconv.ParseInt(value, 10, 64)
		switch {
		case i == 0:
			_, err = fmt.Sscanf(w, "L%d", &f.Level)
		case i == 1:
			unit := map[byte]int64{'K': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[w[len(w)-1]]
			f.Size, err = strconv.ParseInt(w[:len(w)-1], 10, 64)
			f.Size *= unit
		case w == "part":
			f.Part = true
		case w == "damaged":
			f.Damaged = true
		case w == "atmove":
			f.AtMove = true
		case w == "cold":
			f.Cold = true
		case w == "purge":
			f.Purge = true
		case name == "rows":
			f.Rows = n
		case name == "hidden":
			f.Hidden = n
		case name == "moves":
			f.Moves = int(n)
		case name == "tombstones":
			f.Tombstones = int(n)
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
func merged(files []File, lo, hi, level int) (out []File, read, written int64) {
	var size, rows int64
	for _, f := range files[lo:hi] {
		read += f.Size
		if left := f.Rows - f.Hidden; f.Rows > 0 {
			size += f.Size * left / f.Rows
			rows += left
		} else {
			size += f.Size
		}
	}
	written = size
	out = append(out, files[:lo]...)
	part := hi-lo == 1 && files[lo].Part
	moves := files[hi-1].Moves
	for n := int64(0); size > 0; n++ {
		f := File{Size: min(size, 2<<30), Level: level, Part: part || n > 0, Moves: moves}
		if n == 0 {
			f.Rows = rows
		}
		out = append(out, f)
		size -= f.Size
	}
	head := len(out)
	out = append(out, files[hi:]...)
	if written == 0 && !part && head < len(out) {
		out[head].Part = false // nothing was left of the run's first file
	}
	return out, read, written
}

// TestPlanScripts runs testdata/plan*.txt: the input of a command is the files of a
// shard, one a line. "warm" and "cold" show the next merge; "warm all" and "cold
// all" all merges to the end.
func TestPlanScripts(t *testing.T) {
	script.Run(t, "testdata/plan*.txt", func(t *testing.T) func(script.Command) []string {
		return func(c script.Command) []string {
			var files []File
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

// concerned returns the number of files that moves concern.
func concerned(files []File) int {
	n := 0
	for n < len(files) && files[n].Moves > 0 {
		n++
	}
	return n
}

// makeMoves does what a merge does that makes all moves of a part of the rows: they go to a
// file behind those that the moves concern. Damaged files keep their rows.
func makeMoves(files []File, part float64, level int) (out []File) {
	made := File{Level: level}
	n := concerned(files)
	for _, f := range files[:n] {
		if f.Moves = 0; !f.Damaged && f.Rows > 0 {
			rows := int64(part * float64(f.Rows-f.Hidden))
			made.Rows += rows
			made.Size += int64(float64(f.Size) * float64(rows) / float64(f.Rows))
			f.Hidden += rows
		}
		out = append(out, f)
	}
	if made.Rows > 0 {
		out = append(out, made)
	}
	return append(out, files[n:]...)
}

// plans returns the next merge, or all of them and what is left.
func plans(cold, all bool, files []File) (out []string) {
	for range 100 {
		if MovesDue(files, cold) {
			out = append(out, fmt.Sprintf("moves of the first %d", concerned(files)))
			if !all {
				return out
			}
			files = makeMoves(files, 0.25, FullLevel)
		}
		lo, hi, level := Next(files, cold, MaxMergeBytes)
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
			s := fmt.Sprintf("L%d %s", f.Level, sizeText(f.Size))
			if f.Part {
				s += " part"
			}
			if f.Moves > 0 {
				s += fmt.Sprintf(" moves=%d", f.Moves)
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
		var files []File
		var flushed, written int64
		cold, deletes, moves := false, r.IntN(2) == 0, r.IntN(3) == 0
		largest := []int64{1 << 20, 64 << 20, 3 << 30}[r.IntN(3)]
		for range 300 {
			size := 1 + r.Int64N(largest)
			files = append(files, File{Size: size, Rows: 1 + size/16})
			flushed += size
			if deletes && r.IntN(3) == 0 {
				for i := range files {
					files[i].Tombstones++
					if r.IntN(2) == 0 {
						files[i].Hidden = min(files[i].Rows, files[i].Hidden+r.Int64N(1+files[i].Rows/int64(1+r.IntN(200))))
					}
				}
			}
			if moves && r.IntN(10) == 0 {
				for i := range files {
					files[i].Moves++
				}
			}
			if r.IntN(100) == 0 && len(files) > 0 {
				files[r.IntN(len(files))].Damaged = true
			}
			cold = r.IntN(20) == 0
			steps := 0
			for {
				if MovesDue(files, cold) {
					next := makeMoves(files, r.Float64(), FullLevel)
					if len(next) > len(files) {
						written += next[concerned(files)].Size
					}
					files = next
				}
				lo, hi, level := Next(files, cold, MaxMergeBytes)
				if lo == hi {
					break
				}
				for _, f := range files[lo:hi] {
					if f.Damaged {
						t.Fatal("a damaged file is merged")
					}
				}
				if hi-lo > 1 && (files[lo].Part || hi < len(files) && files[hi].Part) {
					t.Fatalf("a run is cut: %d-%d of %+v", lo, hi, files)
				}
				if files[lo].Moves != files[hi-1].Moves {
					t.Fatalf("files before and after a move are merged: %d-%d of %+v", lo, hi, files)
				}
				before := len(files)
				next, _, w := merged(files, lo, hi, level)
				files = next
				written += w
				if steps++; steps > 4*before+4 {
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
