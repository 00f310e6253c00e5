package influxhttp

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestFollow: new rows come as they are written, late ones are found by counts, and the
// end comes when nothing is new.
func TestFollow(t *testing.T) {
	f, to := newFake(t, "1.8.10", someRows()...), newTarget(t)
	var said []string
	p, err := pulled(t, f, to, pullOptions{Options: Options{Note: func(text string) { said = append(said, text) }}})
	if err != nil {
		t.Fatal(err)
	}
	now := time.Now().UnixNano()
	f.add(fakeRow{"m", "a", now - 3*hour, 1}, fakeRow{"m", "b", now, 2}, fakeRow{"new", "b", now + 1, 3})
	refused := fakeRow{"m", "late", now - 5*hour, 1}
	to.refuse = "late"
	f.add(refused)
	begun := f.selects()
	upTo, err := p.follow(t)
	if err != nil {
		t.Fatal(err)
	}
	to.has(t, slices.DeleteFunc(f.rows, func(r fakeRow) bool { return r == refused }))
	if len(said) < 2 || !strings.Contains(said[0], "deletes are not seen") || !strings.Contains(said[len(said)-1], "the writers have moved") {
		t.Errorf("it said %q", said)
	}
	if upTo.IsZero() || p.failed() != 1 {
		t.Errorf("up to %s, %d refused", upTo, p.failed())
	}
	tries := 0
	for _, q := range f.asked[begun:] {
		if strings.Contains(q, "GROUP BY *") && strings.Contains(q, fmt.Sprint((now-5*hour)/int64(10*time.Minute)*int64(10*time.Minute))) {
			tries++
		}
	}
	if tries != 1 {
		t.Errorf("a window that stays different was taken %d times", tries)
	}
}

// TestFollowSwitch: what comes late at the source is found although writers have moved and
// write as much to the target. A target that is away for a while is waited for.
func TestFollowSwitch(t *testing.T) {
	now := time.Now().UnixNano()
	old, young := now-2*hour, now-3*int64(time.Minute)
	f, to := newFake(t, "1.8.10", fakeRow{"m", "a", old, 1}, fakeRow{"m", "a", young, 2}), newTarget(t)
	p, err := pulled(t, f, to, pullOptions{})
	if err != nil {
		t.Fatal(err)
	}
	moved := []fakeRow{{"m", "moved", old + 1, 3}, {"m", "moved", young + 1, 4}}
	counts := 0
	to.counted = func() {
		if counts++; counts != 2 {
			return
		}
		f.add(fakeRow{"m", "late", old + 2, 5}, fakeRow{"m", "late", young + 2, 6}, fakeRow{"m", "early", now + hour, 7})
		for _, r := range moved {
			to.lines[r.line()]++
		}
		to.down = 5
	}
	// New rows keep it from ending before: on a slow machine it may count once only until it is idle.
	keep := func() {
		if counts < 2 {
			f.add(fakeRow{"m", "a", time.Now().UnixNano(), 8})
		}
	}
	if _, err := p.follow(t, keep); err != nil {
		t.Fatal(err)
	}
	if counts < 3 {
		t.Errorf("%d counts", counts)
	}
	to.has(t, append(f.rows, moved...))
}
