//go:build linux

package clustertest

import (
	"context"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"tsdbd/internal/testkit/figure"
	"tsdbd/internal/testkit/testseed"
)

var (
	strongTime    = flag.Duration("strong-time", time.Second, "how long TestStrongReads reads and writes")
	positionReads = flag.Int("position-reads", 200, "reads of TestPositionReads")
)

// registerInput is an operation on a register.
type registerInput struct {
	register int
	write    bool
	value    int64
}

// registers is the model of registers that hold 0 at first.
var registers = porcupine.Model{
	Partition: func(history []porcupine.Operation) [][]porcupine.Operation {
		by := map[int][]porcupine.Operation{}
		for _, o := range history {
			k := o.Input.(registerInput).register
			by[k] = append(by[k], o)
		}
		var out [][]porcupine.Operation
		for _, part := range by {
			out = append(out, part)
		}
		return out
	},
	Init: func() any { return int64(0) },
	Step: func(state, input, output any) (bool, any) {
		in := input.(registerInput)
		if in.write {
			return true, in.value
		}
		return output.(int64) == state.(int64), state
	},
	DescribeOperation: func(input, output any) string {
		in := input.(registerInput)
		if in.write {
			return fmt.Sprintf("r%d := %d", in.register, in.value)
		}
		return fmt.Sprintf("r%d = %v", in.register, output)
	},
}

// TestStrongReads writes points and reads them back with consistency=strong, through
// all nodes and under faults. The history is that of registers: linearizable.
func TestStrongReads(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	c := start(t, setup{nodes: *size, proxies: true, seed: seed})
	c.nodes[0].must("", "CREATE DATABASE db")
	// A register is written to for a moment only, and read for longer: a history with
	// many writes of unknown outcome takes long to check.
	const each = 3
	begin := time.Now()
	current := func() int { return int(time.Since(begin)/(200*time.Millisecond)) * each }
	ctx, cancel := context.WithCancel(context.Background())
	var mu sync.Mutex
	var history []porcupine.Operation
	var value atomic.Int64
	var unknown, failed atomic.Int64
	var clients sync.WaitGroup
	for id := range 6 {
		r := rand.New(rand.NewPCG(seed, uint64(id+1)))
		clients.Go(func() {
			at := id % len(c.nodes)
			for ctx.Err() == nil {
				in := registerInput{register: current() + r.IntN(each), write: r.IntN(3) == 0}
				if !in.write && r.IntN(4) == 0 { // one of the last seconds
					in.register -= r.IntN(1 + min(in.register, 15*each))
				}
				op := porcupine.Operation{ClientId: id, Call: int64(time.Since(begin))}
				limit, stop := context.WithTimeout(context.Background(), 3*time.Second)
				n := c.nodes[at]
				ok := false
				if in.write {
					in.value = value.Add(1)
					a, err := n.post(limit, "db", fmt.Sprintf("reg,k=%d v=%di 0", in.register, in.value))
					ok = err == nil && a.status == http.StatusNoContent
				} else {
					t, err := n.read(limit, "db", fmt.Sprintf("SELECT v FROM reg WHERE k = '%d'", in.register), 0, "consistency", "strong")
					v := int64(0)
					if ok = err == nil; ok && len(t.Series) > 0 {
						v, _ = integer(t.Series[0].Values[0][1])
					}
					op.Output = v
				}
				stop()
				op.Input, op.Return = in, int64(time.Since(begin))
				if !ok {
					at = r.IntN(len(c.nodes))
					time.Sleep(time.Duration(50+r.IntN(100)) * time.Millisecond)
				}
				switch {
				case !ok && !in.write:
					failed.Add(1)
					continue // it says nothing
				case !ok:
					unknown.Add(1)
					op.Return = math.MaxInt64
				}
				mu.Lock()
				history = append(history, op)
				mu.Unlock()
				time.Sleep(time.Duration(r.IntN(4)) * time.Millisecond)
			}
		})
	}
	r := rand.New(rand.NewPCG(seed, 0))
	g := &trouble{cluster: c, r: r, shortest: 500 * time.Millisecond, longest: 2 * time.Second}
	happened := map[string]int{}
	for time.Since(begin) < *strongTime {
		f := faults[r.IntN(len(faults))]
		if f.disk {
			continue
		}
		happened[f.name]++
		f.run(g)
		c.healthy()
		c.verify() // before the next fault hides what this one did
		time.Sleep(200 * time.Millisecond)
	}
	cancel()
	clients.Wait()
	reads := 0
	for _, o := range history {
		if !o.Input.(registerInput).write {
			reads++
		}
	}
	count := 0
	for _, n := range happened {
		count += n
	}
	figure.Report(t, "linearizable reads under faults, checked by porcupine",
		figure.Count{N: reads, Of: "reads"}, figure.Count{N: len(history) - reads, Of: "writes"}, figure.Count{N: count, Of: "faults"})
	t.Logf("%d registers, %d writes of unknown outcome, %d reads failed, under %v",
		current()+each, unknown.Load(), failed.Load(), happened)
	if reads == 0 || reads == len(history) {
		t.Error("no reads, or no writes")
	}
	result, info := porcupine.CheckOperationsVerbose(registers, history, patience)
	switch result {
	case porcupine.Illegal:
		t.Error("the history is not linearizable")
		if file := t.TempDir() + "/history.html"; porcupine.VisualizePath(registers, info, file) == nil {
			t.Logf("see %s, if it is kept", file)
		}
	case porcupine.Unknown:
		t.Error("the history is too long to be checked")
	}
	c.healthy()
	c.verify()
	c.stop()
}

// TestRegistersCanFail: the model refuses a read of an old value.
func TestRegistersCanFail(t *testing.T) {
	write := func(value, from, to int64) porcupine.Operation {
		return porcupine.Operation{Input: registerInput{write: true, value: value}, Call: from, Return: to}
	}
	read := func(value, from, to int64) porcupine.Operation {
		return porcupine.Operation{Input: registerInput{}, Output: value, Call: from, Return: to}
	}
	if porcupine.CheckOperations(registers, []porcupine.Operation{write(1, 0, 10), write(2, 20, 30), read(1, 40, 50)}) {
		t.Error("an old value passes")
	}
	if !porcupine.CheckOperations(registers, []porcupine.Operation{write(1, 0, 10), write(2, 20, math.MaxInt64), read(1, 40, 50), read(2, 60, 70)}) {
		t.Error("a write of unknown outcome is refused")
	}
}

// TestPositionReads writes through one node and reads through another one, with the
// position of the answer: every read sees the write.
func TestPositionReads(t *testing.T) {
	t.Parallel()
	seed := testseed.Of(t)
	c := start(t, setup{nodes: *size, env: []string{steady}})
	c.nodes[0].must("", "CREATE DATABASE db")
	// Without a position the nodes may be behind: how often they are is no bar, but
	// shows that the test can fail.
	var old atomic.Int64
	var left atomic.Int64
	left.Store(int64(*positionReads))
	var clients sync.WaitGroup
	errs := make(chan error, 8)
	for id := range 8 {
		r := rand.New(rand.NewPCG(seed, uint64(id+1)))
		clients.Go(func() {
			for i := int64(1); left.Add(-1) >= 0; i++ {
				to, from := c.nodes[r.IntN(3)], c.nodes[r.IntN(3)]
				ctx, cancel := context.WithTimeout(context.Background(), patience)
				err := func() error {
					a, err := to.post(ctx, "db", fmt.Sprintf("own,k=%d v=%di 0", id, i))
					if err != nil || a.status != http.StatusNoContent {
						return fmt.Errorf("write at %s: %d %s %w", to.name, a.status, a.body, err)
					}
					if a.position() == 0 {
						return fmt.Errorf("the answer of %s to a write has no position: %v", to.name, a.header)
					}
					value := func(position uint64) (int64, error) {
						t, err := from.read(ctx, "db", fmt.Sprintf("SELECT v FROM own WHERE k = '%d'", id), position)
						if err != nil || len(t.Series) == 0 {
							return 0, err
						}
						v, _ := integer(t.Series[0].Values[0][1])
						return v, nil
					}
					if i%10 == 0 {
						v, err := value(0)
						if err != nil {
							return err
						}
						if v != i {
							old.Add(1)
						}
					}
					v, err := value(a.position())
					if err == nil && v != i {
						err = fmt.Errorf("wrote %d at %s, position %d; read %d at %s", i, to.name, a.position(), v, from.name)
					}
					return err
				}()
				cancel()
				if err != nil {
					errs <- err
					return
				}
			}
		})
	}
	clients.Wait()
	close(errs)
	for err := range errs {
		t.Error(err)
	}
	figure.Report(t, "reads at another node with the position of a write", figure.Count{N: *positionReads, Of: "reads"})
	t.Logf("of %d reads without a position, %d did not see the write before", *positionReads/10, old.Load())
	c.stop()
}
