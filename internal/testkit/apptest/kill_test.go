package apptest

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var killRounds = flag.Int("kill-rounds", 5, "rounds of TestKill")

// writer writes its own series and remembers what was acknowledged. Point n
// lies at time n; its value is the number of the batch that wrote it last.
type writer struct {
	id    int
	r     *rand.Rand
	batch int64
	sure  map[int64]int64 // time -> value acknowledged
	maybe map[int64]int64 // time -> value of the request that was cut off
	next  int64
}

// run sends batches until a request gets no answer.
func (w *writer) run(ctx context.Context, s *Server) error {
	for {
		w.batch++
		values := map[int64]int64{}
		var b strings.Builder
		for range 1 + w.r.IntN(40) {
			t := w.next
			if w.r.IntN(5) == 0 && w.next > 0 {
				t = w.r.Int64N(w.next) // overwrite
			} else {
				w.next++
			}
			values[t] = w.batch
			fmt.Fprintf(&b, "m,w=%d v=%di %d\n", w.id, w.batch, t)
		}
		status, body, err := s.Do(ctx, http.MethodPost, "/write", url.Values{"db": {"db"}}, b.String())
		switch {
		case err != nil:
			w.maybe = values
			return nil
		case status == http.StatusNoContent:
			for t, v := range values {
				w.sure[t] = v
			}
		case status == http.StatusServiceUnavailable:
		default:
			return fmt.Errorf("write: %d %s", status, body)
		}
		if w.r.IntN(20) == 0 { // must be refused, and never be seen
			status, _, err := s.Do(ctx, http.MethodPost, "/write", url.Values{"db": {"db"}}, fmt.Sprintf("m,w=%d v=\"refused\" %d", w.id, -1-w.batch))
			if err == nil && status != http.StatusBadRequest {
				return fmt.Errorf("conflicting write: status %d", status)
			}
		}
	}
}

// verify compares the server with the ledger, and settles what was unsure: a
// cut-off batch is there as a whole or not at all.
func (w *writer) verify(s *Server) error {
	var doc struct {
		Results []struct {
			Error  string
			Series []struct{ Values [][2]json.Number }
		}
	}
	d := json.NewDecoder(strings.NewReader(s.Query("db", fmt.Sprintf("SELECT v FROM m WHERE w = '%d'", w.id))))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		return err
	}
	if len(doc.Results) != 1 || doc.Results[0].Error != "" {
		return fmt.Errorf("query: %+v", doc)
	}
	got := map[int64]int64{}
	for _, series := range doc.Results[0].Series {
		for _, row := range series.Values {
			t, err := row[0].Int64()
			if err != nil {
				return err
			}
			v, err := row[1].Int64()
			if err != nil {
				return err
			}
			got[t] = v
		}
	}
	applied := 0
	for t, v := range w.maybe {
		if got[t] == v {
			applied++
		}
	}
	if applied != 0 && applied != len(w.maybe) {
		return fmt.Errorf("writer %d: %d of the %d points of a cut-off batch are there", w.id, applied, len(w.maybe))
	}
	if applied > 0 {
		for t, v := range w.maybe {
			w.sure[t] = v
		}
	}
	w.maybe = nil
	for t, v := range w.sure {
		if g, ok := got[t]; !ok {
			return fmt.Errorf("writer %d: acknowledged point at %d is lost", w.id, t)
		} else if g != v {
			return fmt.Errorf("writer %d: point at %d is %d, want %d", w.id, t, g, v)
		}
	}
	for t, v := range got {
		if _, ok := w.sure[t]; !ok {
			return fmt.Errorf("writer %d: point at %d (%d) was never acknowledged", w.id, t, v)
		}
	}
	return nil
}

// TestKill kills the server with SIGKILL at random moments under four
// writers. Every acknowledged point must be there with its value, and nothing
// that was refused.
func TestKill(t *testing.T) {
	t.Parallel()
	rounds := *killRounds
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 1))
	s := Start(t)
	s.Query("", "CREATE DATABASE db")
	var writers []*writer
	for i := range 4 {
		writers = append(writers, &writer{id: i, r: rand.New(rand.NewPCG(seed, uint64(i+2))), sure: map[int64]int64{}})
	}
	points := 0
	for round := range rounds {
		var wg sync.WaitGroup
		errs := make(chan error, len(writers))
		for _, w := range writers {
			wg.Go(func() {
				if err := w.run(context.Background(), s); err != nil {
					errs <- err
				}
			})
		}
		time.Sleep(time.Duration(5+r.IntN(250)) * time.Millisecond)
		s.Kill()
		wg.Wait()
		close(errs)
		for err := range errs {
			t.Fatal(err)
		}
		s.Restart()
		points = 0
		for _, w := range writers {
			if err := w.verify(s); err != nil {
				s.Kill()
				t.Fatalf("round %d: %v\n%s", round, err, s.Log())
			}
			points += len(w.sure)
		}
	}
	figure.Report(t, "`kill -9` of the real program under writes", figure.Count{N: rounds, Of: "kills"}, figure.Count{N: points, Of: "acknowledged points"})
	s.Stop()
}
