package match

import (
	"encoding/binary"
	"regexp/syntax"
	"slices"
	"unicode/utf8"
)

// dfa decides whether a regular expression matches somewhere in a text, with
// the answer of package regexp, from the same compiled program. Its states
// are built when they are first reached. One goroutine may use it.
//
// A state is the set of program counters reached, before conditions like ^, $
// and \b are looked at, and the class of the rune before: the conditions
// depend on both neighbours, so they are resolved when the next rune is
// known. Matching is sticky: accepted leads to itself.
type dfa struct {
	prog     *syntax.Prog
	work     *Work // counts the steps; when it is done, nothing matches
	anchored bool  // matches begin at the text's beginning
	states   map[string]*dfaState
	bytes    int // of states, about
	initial  *dfaState
	accepted *dfaState
	dead     *dfaState

	// The run over the value before: trail[i] is the state before byte i, for
	// the first filled bytes.
	trail   []*dfaState
	filled  int
	emptied bool // the table was, and with it trail, during the present run

	queue, next []uint32 // program counters
	seen        []uint32 // generation that queued a counter
	generation  uint32
	key         []byte
}

// The table of states is emptied and built again when it holds more states
// than dfaStates, or more bytes than dfaBytes: a state of a large program may
// have many counters.
const (
	dfaStates     = 2000
	dfaBytes      = 8 << 20
	dfaStateBytes = 1 << 10 // of a state, without its counters
)

type dfaState struct {
	counters []uint32
	before   rune // class of the rune before: -1, '\n', 'a', ' '
	sticky   bool // accepted or dead
	end      int8 // match if the text ends here: 0 unknown, 1 yes, -1 no
	ascii    [utf8.RuneSelf]*dfaState
	other    map[rune]*dfaState
}

func newDFA(prog *syntax.Prog, work *Work) *dfa {
	d := &dfa{
		prog: prog, work: work, seen: make([]uint32, len(prog.Inst)), states: map[string]*dfaState{},
		accepted: &dfaState{sticky: true, end: 1}, dead: &dfaState{sticky: true, end: -1},
		anchored: prog.StartCond()&syntax.EmptyBeginText != 0,
	}
	d.initial = &dfaState{counters: []uint32{uint32(prog.Start)}, before: -1}
	return d
}

// match reports whether the expression matches in value, whose first shared
// bytes are those of the value of the last call.
func (d *dfa) match(value []byte, shared int) bool {
	if d.work.Done(1 + len(value) - shared) {
		return false
	}
	at := min(shared, d.filled)
	// Go back to behind an ASCII byte: how a longer rune reads may depend on
	// bytes that are not shared.
	for at > 0 && value[at-1] >= utf8.RuneSelf {
		at--
	}
	if len(d.trail) <= len(value) {
		d.trail = append(d.trail, make([]*dfaState, len(value)+1-len(d.trail))...)
	}
	s := d.initial
	if at > 0 {
		s = d.trail[at]
	}
	d.trail[at] = s
	for at < len(value) && !s.sticky && d.work.err == nil {
		c := value[at]
		if c < utf8.RuneSelf {
			next := s.ascii[c]
			if next == nil {
				next = d.step(s, rune(c))
				s.ascii[c] = next
			}
			s = next
			at++
		} else {
			r, size := utf8.DecodeRune(value[at:])
			next := s.other[r]
			if next == nil {
				next = d.step(s, r)
				if s.other == nil || len(s.other) > 256 {
					s.other = map[rune]*dfaState{}
				}
				s.other[r] = next
			}
			s = next
			at += size
		}
		d.trail[at] = s
	}
	d.filled = at
	if s.end == 0 {
		s.end = -1
		if d.closure(s, -1) {
			s.end = 1
		}
	}
	if d.emptied {
		d.filled, d.emptied = 0, false
	}
	return s.end > 0 && d.work.err == nil
}

// closure puts into d.queue the counters reachable without reading a rune when
// r comes next, and reports whether a match is among them.
func (d *dfa) closure(s *dfaState, r rune) bool {
	flags := syntax.EmptyOpContext(s.before, r)
	d.generation++
	d.queue = d.queue[:0]
	stack := append(d.next[:0], s.counters...)
	matched := false
	steps := 0
	defer func() { d.work.Done(steps) }()
	for ; len(stack) > 0; steps++ {
		pc := stack[len(stack)-1]
		stack = stack[:len(stack)-1]
		if d.seen[pc] == d.generation {
			continue
		}
		d.seen[pc] = d.generation
		switch i := &d.prog.Inst[pc]; i.Op {
		case syntax.InstAlt, syntax.InstAltMatch:
			stack = append(stack, i.Out, i.Arg)
		case syntax.InstCapture, syntax.InstNop:
			stack = append(stack, i.Out)
		case syntax.InstEmptyWidth:
			if syntax.EmptyOp(i.Arg)&^flags == 0 {
				stack = append(stack, i.Out)
			}
		case syntax.InstMatch:
			matched = true
		case syntax.InstFail:
		default:
			d.queue = append(d.queue, pc)
		}
	}
	d.next = stack
	return matched
}

func (d *dfa) step(s *dfaState, r rune) *dfaState {
	if d.closure(s, r) {
		return d.accepted
	}
	d.work.Done(len(d.queue))
	counters := d.next[:0]
	for _, pc := range d.queue {
		if i := &d.prog.Inst[pc]; i.MatchRune(r) {
			counters = append(counters, i.Out)
		}
	}
	if !d.anchored {
		counters = append(counters, uint32(d.prog.Start))
	}
	slices.Sort(counters)
	counters = slices.Compact(counters)
	d.next = counters
	if len(counters) == 0 {
		return d.dead
	}
	before := ' '
	switch {
	case r == '\n':
		before = '\n'
	case syntax.IsWordChar(r):
		before = 'a'
	}
	return d.state(counters, before)
}

func (d *dfa) state(counters []uint32, before rune) *dfaState {
	k := binary.LittleEndian.AppendUint32(d.key[:0], uint32(before))
	for _, pc := range counters {
		k = binary.LittleEndian.AppendUint32(k, pc)
	}
	d.key = k
	if s := d.states[string(k)]; s != nil {
		return s
	}
	if len(d.states) >= dfaStates || d.bytes >= dfaBytes {
		// States already handed out stay right; they only lose their identity.
		clear(d.states)
		clear(d.trail)
		d.bytes, d.emptied = 0, true
		d.initial = &dfaState{counters: d.initial.counters, before: d.initial.before}
	}
	s := &dfaState{counters: slices.Clone(counters), before: before}
	d.states[string(k)] = s
	d.bytes += dfaStateBytes + 8*len(counters)
	return s
}
