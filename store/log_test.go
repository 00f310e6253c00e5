package store

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/store/layout"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// messages is a log without files, as one that is replicated might be: whole
// messages that more than one store reads.
type messages struct {
	mu       sync.Mutex
	sequence uint64
	kept     [][]byte
}

// messageLog is a store's end of it.
type messageLog struct {
	*messages
	opt    LogOptions
	damage []wal.Damage
}

func (m *messages) open(opt LogOptions) (Log, error) { return &messageLog{messages: m, opt: opt}, nil }

func (l *messageLog) Replay(fn func(*entry.Entry) error) error {
	d := entry.NewDecoder(nil)
	last := uint64(0)
	for _, b := range l.kept {
		e, err := d.Record(b)
		if err == nil {
			if last > 0 && e.Sequence > last+1 {
				l.damage = append(l.damage, wal.Damage{First: last + 1, Last: e.Sequence - 1, Reason: "missing"})
			}
			last = e.Sequence
			err = fn(e)
		}
		if errors.Is(err, binio.ErrCorrupt) {
			l.damage = append(l.damage, wal.Damage{First: e.Sequence, Last: e.Sequence, Reason: err.Error()})
		} else if err != nil {
			return err
		}
	}
	return nil
}

func (l *messageLog) Append(e *entry.Entry) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sequence++
	e.Sequence = l.sequence
	var c entry.Encoder
	b, err := c.AppendRecord(nil, e, nil)
	if err != nil {
		return err
	}
	l.kept = append(l.kept, b)
	return l.opt.Apply(e)
}

func (l *messageLog) Advance(sequence uint64) error {
	l.sequence = max(l.sequence, sequence)
	return nil
}
func (l *messageLog) Trim(uint64) error    { return nil }
func (l *messageLog) Shrink(uint64) error  { return nil }
func (l *messageLog) Stats() wal.Stats     { return wal.Stats{} }
func (l *messageLog) Damage() []wal.Damage { return l.damage }
func (l *messageLog) Err() error           { return nil }
func (l *messageLog) Close() error         { return nil }

// TestLogOfMessages runs a driver over a log of messages, and then another store,
// in another directory, over the same log: it has the same points and the same
// catalog.
func TestLogOfMessages(t *testing.T) {
	m := &messages{}
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.OpenLog = m.open
	s := openTest(t, fs, opt)
	d := newDriver(s, newTestRand(t, 1))
	d.ddl = true
	if err := d.create(); err != nil {
		t.Fatal(err)
	}
	for range 150 {
		if op := d.next(); op.name != "restart" && op.name != "backup" {
			s.must(op.run())
			d.want = op.after
		}
	}
	if err := d.check(d.s); err != nil {
		t.Fatal(err)
	}
	other := vfstest.New()
	opt = testOptions(other)
	opt.OpenLog = m.open
	follower := openTest(t, other, opt)
	if err := d.check(follower); err != nil {
		t.Errorf("the other store: %v", err)
	}
	if n := len(follower.log.Damage()); n > 0 {
		t.Errorf("%d entries not placed, the first: %s", n, follower.log.Damage()[0].Reason)
	}
	catalog := func(s *testStore) string {
		data := *s.Catalog()
		data.Lineage, data.Dropped = [16]byte{}, meta.Dropped{}
		b, err := json.Marshal(&data)
		s.must(err)
		return string(b)
	}
	if have, want := catalog(follower), catalog(s); have != want {
		t.Errorf("the other store's catalog is %s, want %s", have, want)
	}
	s.must(follower.Close())
	s.must(s.Close())
}

// TestEntryWithoutPlace leaves a change of the catalog out of the log: what goes to
// the shard that it made cannot be placed and is told as damage, nothing of it goes
// elsewhere, and what comes behind it keeps its place.
func TestEntryWithoutPlace(t *testing.T) {
	m := &messages{}
	fs := vfstest.New()
	opt := testOptions(fs)
	opt.OpenLog = m.open
	s := openTest(t, fs, opt)
	s.create("db")
	s.must(s.write("db", "m v=1 1"))
	s.must(s.write("db", fmt.Sprintf("m v=2 %d", 5*week)))
	s.must(s.write("db", fmt.Sprintf("m v=3 %d", 9*week)))
	s.must(s.Delete(context.Background(), scan.DeleteRequest{Database: "db", Range: model.TimeRange{Min: 1, Max: 1}}))
	s.must(s.Close())
	lost := 0
	m.kept = slices.DeleteFunc(m.kept, func(b []byte) bool {
		if strings.Contains(string(b), "CreateShardGroups") {
			lost++
			return lost == 2
		}
		return false
	})
	other := vfstest.New()
	opt = testOptions(other)
	opt.OpenLog = m.open
	s = openTest(t, other, opt)
	if got := s.read("db"); len(got) != 1 || got[pointKey("m", 9*week, "v")] != "3" {
		t.Errorf("points %v", got)
	}
	damage := s.log.Damage()
	if len(damage) != 2 || !strings.Contains(damage[1].Reason, "is for shard 2 of database 1, which the catalog does not have") {
		t.Errorf("damage %+v", damage)
	}
	s.must(s.Close())
	// Where nothing is missing between the entries the catalog is an older one.
	m.kept = m.kept[2:3]
	opt = testOptions(vfstest.New())
	opt.OpenLog = m.open
	if _, err := Open("/data", opt); !errors.Is(err, layout.ErrOlderCatalog) {
		t.Errorf("open: %v", err)
	}
}
