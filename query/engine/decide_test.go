package engine

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/result"
)

// randomPredicate is a predicate over f, i, u, b, s, the tag h and what nobody has.
func randomPredicate(rnd *rand.Rand, depth int) string {
	if depth > 0 && rnd.IntN(3) > 0 {
		op := []string{" AND ", " OR "}[rnd.IntN(2)]
		return "(" + randomPredicate(rnd, depth-1) + op + randomPredicate(rnd, depth-1) + ")"
	}
	numbers := []string{"0", "1", "5", "-3", "2.5", "9", "100", "9007199254740992", "9007199254740993", "-9007199254740993", "9223372036854775807"}
	column := []string{"f", "i", "u", "i", "nobody", "f + 1", "i * 2"}[rnd.IntN(7)]
	op := []string{"=", "!=", "<", "<=", ">", ">="}[rnd.IntN(6)]
	number := numbers[rnd.IntN(len(numbers))]
	switch rnd.IntN(8) {
	case 0:
		return number + " " + op + " " + column
	case 1:
		return []string{"b = true", "b != true", "s = 'x'", "s != 'x'", "s =~ /x/", "h = 'h1'", "h != 'h1'", "h =~ /1/", "i = u", "f < i"}[rnd.IntN(10)]
	}
	return column + " " + op + " " + number
}

// TestDecide: what statistics decide about chunks is what their rows say, and
// they do decide.
func TestDecide(t *testing.T) {
	rnd := rand.New(rand.NewPCG(testseed.Of(t), 11))
	m := scantest.New()
	m.Create("d", "autogen")
	var lines strings.Builder
	for i := range 400 {
		fields := []string{}
		add := func(format string, args ...any) {
			if rnd.IntN(10) > 0 {
				fields = append(fields, fmt.Sprintf(format, args...))
			}
		}
		level := i / 40 // values come in steps, so that chunks differ
		add("f=%d", level+rnd.IntN(2))
		add("i=%di", []int64{int64(level), 9007199254740991 + int64(rnd.IntN(4)), -9007199254740991 - int64(rnd.IntN(4)), 5, 9223372036854775807}[level%5])
		add("u=%du", []uint64{uint64(level), 1 << 53, 1<<53 + 1, 18446744073709551613, 5}[level%5])
		add("b=%t", rnd.IntN(2) == 0)
		add("s=\"%c\"", 'x'+rune(rnd.IntN(2)))
		if len(fields) > 0 {
			fmt.Fprintf(&lines, "m,h=h%d %s %d\n", i%2, strings.Join(fields, ","), i)
		}
	}
	m.Write(t, "d", "", "s", lines.String())
	decided, whole := 0, 0
	for range testseed.Rounds(400) {
		where := randomPredicate(rnd, 2)
		for _, q := range []string{"SELECT f, i, u, s FROM m WHERE " + where, "SELECT count(f), sum(i), max(u) FROM m WHERE " + where + " GROUP BY h"} {
			answers := [2][]string{}
			for k, stats := range []bool{false, true} {
				m.Stats = stats
				prof := &profile{}
				stmt, err := parseSelect(m, q)
				if err != nil {
					t.Fatal(err)
				}
				x := newExec(context.Background(), m, Options{Workers: 1 + rnd.IntN(8)})
				x.analyze(prof)
				run, err := x.plan(stmt)
				if err != nil {
					t.Fatalf("%s: %v", q, err)
				}
				err = run.answer(func(r *result.Result) error {
					answers[k] = append(answers[k], seriesTexts(r.Series)...)
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
				x.release()
				for _, sp := range prof.storage.Shards {
					if stats {
						decided += int(sp.Chunks.Load() - sp.Decoded.Load())
					}
					whole += int(sp.Chunks.Load())
				}
			}
			if !slices.Equal(answers[0], answers[1]) {
				t.Fatalf("%s\nfrom rows       %.800q\nfrom statistics %.800q", q, answers[0], answers[1])
			}
		}
	}
	if decided < whole/10 {
		t.Errorf("%d of %d chunks decided by statistics", decided, whole)
	}
}
