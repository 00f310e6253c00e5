package apptest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/testseed"
)

// movedPoint is what a test knows of a point. The point was written at place after move
// from or a later one, and before move to or an earlier one, as numbers of moves.
type movedPoint struct {
	place    Place
	from, to int
	sure     bool // it was acknowledged
}

// mover gives names to points and remembers which ones they can have.
type mover struct {
	mu       sync.Mutex
	points   map[Point]*movedPoint
	moves    []Move // that were sent since the last start
	answered int    // how many of them have an answer
}

// write sends points of a host until a request gets no answer.
func (m *mover) write(s *Server, host string, next *int64, weeks []int64) error {
	for i := 0; ; i++ {
		name := []string{"a", "b"}[i%2]
		var body strings.Builder
		var batch []*movedPoint
		m.mu.Lock()
		for range 10 {
			*next++
			p := Point{host, weeks[*next%int64(len(weeks))]*int64(7*24*time.Hour) + *next}
			body.WriteString(p.Line(name))
			m.points[p] = &movedPoint{place: Place{Name: name, Field: "v"}, from: m.answered}
			batch = append(batch, m.points[p])
		}
		m.mu.Unlock()
		status, answer, err := s.Do(context.Background(), http.MethodPost, "/write", url.Values{"db": {"db"}}, body.String())
		m.mu.Lock()
		for _, p := range batch {
			p.to, p.sure = len(m.moves), err == nil && status == http.StatusNoContent
		}
		m.mu.Unlock()
		if err != nil {
			return nil
		}
		if status != http.StatusNoContent {
			return fmt.Errorf("write: %d %s", status, answer)
		}
	}
}

// move sends moves until one gets no answer. It calls enough after some of them.
func (m *mover) move(s *Server, r *rand.Rand, next *int, done *[Kinds]int, some int, enough func()) error {
	for {
		move := NthMove(r, *next)
		*next++
		m.mu.Lock()
		m.moves = append(m.moves, move)
		m.mu.Unlock()
		status, answer, err := s.Do(context.Background(), http.MethodPost, "/query", url.Values{"db": {"db"}, "q": {move.Query}}, "")
		if err != nil {
			return nil
		}
		if status != http.StatusOK {
			return fmt.Errorf("%s: %d %s", move.Query, status, answer)
		}
		m.mu.Lock()
		m.answered = len(m.moves)
		if strings.Contains(answer, `"error"`) { // nothing changed
			m.moves[m.answered-1].Apply = func(_ string, p Place) Place { return p }
		} else {
			done[move.Kind]++
		}
		m.mu.Unlock()
		if some--; some == 0 {
			enough()
		}
	}
}

// explain returns why points cannot be where they are after moves, nil if they can.
func (m *mover) explain(found map[Point]Place, moves []Move) error {
	for p := range found {
		if m.points[p] == nil {
			return fmt.Errorf("%v was never written", p)
		}
	}
	for p, w := range m.points {
		at, ok := found[p]
		if !ok && w.sure {
			return fmt.Errorf("%v was acknowledged and is lost", p)
		}
		possible := []Place{at}[:0]
		for from := w.from; from <= min(w.to, len(moves)); from++ {
			place := w.place
			for _, move := range moves[from:] {
				place = move.Apply(p.Host, place)
			}
			possible = append(possible, place)
		}
		if ok && !slices.Contains(possible, at) {
			return fmt.Errorf("%v is at %+v, want one of %+v", p, at, possible)
		}
	}
	return nil
}

// TestMoveKilled kills the server again and again while it moves series and takes points.
// After a start each point is in one place: there is all of the last move or nothing of
// it, and all of those that were acknowledged.
func TestMoveKilled(t *testing.T) {
	t.Parallel()
	s := New(t)
	s.Env = []string{"TSDBD_DATA_FLUSH_SIZE=1MiB", "TSDBD_DATA_FLUSH_IDLE=100ms", "TSDBD_DATA_COMPACT_AFTER=200ms"}
	s.Restart()
	s.Query("", "CREATE DATABASE db")
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	m := &mover{points: map[Point]*movedPoint{}}
	var next [3]int64
	var done [Kinds]int
	moves := 0
	for round := range int64(8) {
		some, delay := 10+r.IntN(50), time.Duration(r.IntN(30))*time.Millisecond
		weeks := []int64{0, round + 1} // those of earlier rounds get cold
		enough := make(chan struct{})
		var requests sync.WaitGroup
		failed := make(chan error, len(next)+1)
		for i := range next {
			requests.Go(func() { failed <- m.write(s, fmt.Sprintf("h%d", i), &next[i], weeks) })
		}
		requests.Go(func() { failed <- m.move(s, r, &moves, &done, some, func() { close(enough) }) })
		select {
		case <-enough:
		case err := <-failed:
			t.Fatalf("before the server was killed: %v", err)
		}
		time.Sleep(delay)
		s.Kill()
		requests.Wait()
		for range cap(failed) {
			if err := <-failed; err != nil {
				t.Fatal(err)
			}
		}
		s.Restart()
		found, err := Places(s.Query("db", SelectPlaces))
		if err != nil {
			t.Fatalf("round %d: %v", round, err)
		}
		err = m.explain(found, m.moves)
		if err != nil && m.answered < len(m.moves) {
			if without := m.explain(found, m.moves[:m.answered]); without != nil {
				err = fmt.Errorf("%w; without the last move: %w", err, without)
			} else {
				err = nil
			}
		}
		if err != nil {
			t.Fatalf("round %d, after %d moves with an answer of %d, the last %s: %v", round, m.answered, len(m.moves), m.moves[len(m.moves)-1].Query, err)
		}
		m.moves, m.answered = nil, 0
		clear(m.points)
		for p, place := range found {
			m.points[p] = &movedPoint{place: place, sure: true}
		}
	}
	t.Logf("%d points, %v moves of each kind", len(m.points), done)
	if slices.Contains(done[:], 0) {
		t.Errorf("%v moves of each kind, want some of all", done)
	}
}
