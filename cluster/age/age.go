// Package age notices a node that was started with an old copy of its directory. Every node
// has an age, which grows with each start and while it runs, and remembers the ages that
// the others have said.
package age

import (
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
)

// The keys under which the log keeps the age of its node, and what other nodes have said.
// They are beside the term and the vote: a log that is put back has the age of then.
var (
	ageKey  = []byte("Age")
	seenKey = []byte("Seen")
)

// Sighting is what a node says of its age.
type Sighting struct {
	Age     uint64 `json:"age"`
	Process uint64 `json:"process"`
	// Copied says that an old copy has come under the id, so that no other process counts
	// any more: each start of the copy raises its age.
	Copied bool `json:"copied,omitempty"`
}

// OlderThan reports whether a node that says s has an older copy of the directory of one
// that has said seen. An age is given once: another process that says it has a copy. What
// one process says may arrive late, by less than an interval.
func (s Sighting) OlderThan(seen Sighting) bool {
	return s.Age > 0 && (s.Age+1 < seen.Age || s.Process != seen.Process && (seen.Copied || s.Age <= seen.Age))
}

// Table is the age of this node, and what the others have said of theirs.
//
// An old copy of a directory does not know what the node has confirmed since, and could
// vote for a leader that does not either. So raft runs over no connection with a node that
// has said a higher age before. Nodes tell each other what they have seen, and an old copy
// learns it with the status of any of them.
type Table struct {
	News   chan struct{} // has an element after an accusation, and when there is something to save
	saving sync.Mutex

	mu struct {
		sync.Mutex
		id      string // under which own is said: that to which the log belongs
		own     Sighting
		seen    map[string]Sighting
		unsaved bool
		refused map[string]Sighting // that were logged
		accused string              // who says that this directory is an old copy, and why
	}
}

// New returns a table in which nobody has said anything.
func New() *Table {
	a := &Table{News: make(chan struct{}, 1)}
	a.mu.own.Process = rand.Uint64()
	a.mu.seen, a.mu.refused = map[string]Sighting{}, map[string]Sighting{}
	return a
}

// Own returns what this node says of itself under an id, nothing before the log is open that
// belongs to it.
func (a *Table) Own(id string) Sighting {
	a.mu.Lock()
	defer a.mu.Unlock()
	if id != a.mu.id {
		return Sighting{}
	}
	return a.mu.own
}

// Open takes the age of the node with an id from its log, and raises it.
func (a *Table) Open(log *raftlog.Store, id string) error {
	b, err := log.Get(seenKey)
	if err == nil {
		seen := map[string]Sighting{}
		if err := json.Unmarshal(b, &seen); err != nil {
			return fmt.Errorf("read what other nodes have said of their age: %w", err)
		}
		a.mu.Lock()
		for id, s := range seen {
			if heard := a.mu.seen[id]; s.Age > heard.Age || heard.OlderThan(s) { // before the log was open
				a.mu.seen[id] = s
			}
		}
		a.mu.Unlock()
	}
	if err := a.Raise(log); err != nil {
		return err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.id, a.mu.unsaved = id, true // the log may be a new one
	return nil
}

// Raise raises the age of this node, durably before it is said.
func (a *Table) Raise(log *raftlog.Store) error {
	age, err := log.GetUint64(ageKey)
	if err == nil {
		err = log.SetUint64(ageKey, age+1)
	}
	if err != nil {
		return fmt.Errorf("raise the age of the node: %w", err)
	}
	a.mu.Lock()
	a.mu.own.Age = age + 1
	a.mu.Unlock()
	return nil
}

// Note takes what a node says. It returns an error if that node has an old copy.
func (a *Table) Note(id string, said Sighting) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	seen := a.mu.seen[id]
	if said.OlderThan(seen) {
		return fmt.Errorf("its directory is an old copy: it has the age %d now, and was seen with the age %d before", said.Age, seen.Age)
	}
	same := said.Process == seen.Process
	said.Copied = said.Copied || same && seen.Copied
	if id != "" && (said.Age > seen.Age || same && said.Copied && !seen.Copied) {
		said.Age = max(said.Age, seen.Age)
		a.mu.seen[id], a.mu.unsaved = said, true
		signal(a.News)
	}
	return nil
}

// Refuse notes that a node with an old copy has come under an id. It returns whether it is
// the first time that this process has.
func (a *Table) Refuse(id string, said Sighting) (first bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if seen := a.mu.seen[id]; !seen.Copied {
		seen.Copied = true
		a.mu.seen[id], a.mu.unsaved = seen, true
		signal(a.News)
	}
	first = a.mu.refused[id].Process != said.Process
	a.mu.refused[id] = said
	return first
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Take has an old copy count from now on.
func (a *Table) Take(id string, said Sighting) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.mu.seen[id], a.mu.unsaved = said, true
	signal(a.News)
}

// Save makes durable what the members have said.
func (a *Table) Save(log *raftlog.Store, members []raft.Server) error {
	a.saving.Lock()
	defer a.saving.Unlock()
	a.mu.Lock()
	if !a.mu.unsaved {
		a.mu.Unlock()
		return nil
	}
	a.mu.unsaved = false
	seen := map[string]Sighting{}
	for _, s := range members {
		if at, ok := a.mu.seen[string(s.ID)]; ok {
			seen[string(s.ID)] = at
		}
	}
	a.mu.Unlock()
	b, err := json.Marshal(seen)
	if err == nil {
		err = log.Set(seenKey, b)
	}
	if err != nil {
		a.mu.Lock()
		a.mu.unsaved = true
		a.mu.Unlock()
		return fmt.Errorf("save what other nodes say of their age: %w", err)
	}
	return nil
}

// Accuse notes why this directory is an old copy.
func (a *Table) Accuse(why string) {
	a.mu.Lock()
	a.mu.accused = why
	a.mu.Unlock()
	signal(a.News)
}

// Acquit takes that back.
func (a *Table) Acquit() {
	a.mu.Lock()
	a.mu.accused = ""
	a.mu.Unlock()
}

// Accused returns why this directory is an old copy, or "".
func (a *Table) Accused() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.mu.accused
}

// Seen returns what the others have said.
func (a *Table) Seen() map[string]Sighting {
	a.mu.Lock()
	defer a.mu.Unlock()
	return maps.Clone(a.mu.seen)
}
