package replica

import (
	"errors"
	"reflect"
	"testing"

	"github.com/hashicorp/raft"

	"tsdbd/cluster/raftlog"
	"tsdbd/internal/vfs/vfstest"
)

// TestEntryOfBase: raft finds the term of the base in a log that was made behind it, the
// configuration if the base is the entry that set it, and nothing before it.
func TestEntryOfBase(t *testing.T) {
	one := raft.Configuration{Servers: []raft.Server{{ID: "n1/1", Address: "127.0.0.1:1"}}}
	for _, at := range []uint64{1, 7} {
		fsys := vfstest.New()
		if err := raftlog.Create(fsys, "/log", raftlog.Base{Index: 7, Term: 3, Sequence: 5, Configuration: one, ConfigurationIndex: at}); err != nil {
			t.Fatal(err)
		}
		log, err := raftlog.Open(fsys, "/log", raftlog.Options{})
		if err != nil {
			t.Fatal(err)
		}
		e := newEntries(&Replica{opt: Options{Log: log}})
		if err := e.StoreLog(&raft.Log{Index: 8, Term: 4, Type: raft.LogNoop}); err != nil {
			t.Fatal(err)
		}
		var l raft.Log
		if err := e.GetLog(7, &l); err != nil || l.Index != 7 || l.Term != 3 {
			t.Errorf("the entry of the base: %+v, %v", l, err)
		}
		if isConfiguration := l.Type == raft.LogConfiguration; isConfiguration != (at == 7) || isConfiguration && !reflect.DeepEqual(raft.DecodeConfiguration(l.Data), one) {
			t.Errorf("configuration of entry %d: %+v", at, l)
		}
		if err := e.GetLog(8, &l); err != nil || l.Term != 4 {
			t.Errorf("the entry behind the base: %+v, %v", l, err)
		}
		if err := e.GetLog(6, &l); !errors.Is(err, raft.ErrLogNotFound) {
			t.Errorf("the entry before the base: %+v, %v", l, err)
		}
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestBehind: of a message of the leader only what is behind the base reaches raft.
func TestBehind(t *testing.T) {
	base := raftlog.Base{Index: 7, Term: 3}
	entries := func(from, to uint64) (out []*raft.Log) {
		for i := from; i <= to; i++ {
			out = append(out, &raft.Log{Index: i, Term: 3})
		}
		return out
	}
	for _, f := range []struct {
		previous, from, to   uint64 // to < from: no entries
		want, first, entries uint64
	}{
		{previous: 0, from: 1, to: 0, want: 0},
		{previous: 0, from: 1, to: 5, want: 7},
		{previous: 0, from: 1, to: 9, want: 7, first: 8, entries: 2},
		{previous: 5, from: 6, to: 5, want: 7},
		{previous: 5, from: 6, to: 7, want: 7},
		{previous: 6, from: 7, to: 8, want: 7, first: 8, entries: 1},
		{previous: 7, from: 8, to: 9, want: 7, first: 8, entries: 2},
		{previous: 9, from: 10, to: 10, want: 9, first: 10, entries: 1},
	} {
		sent := &raft.AppendEntriesRequest{PrevLogEntry: f.previous, PrevLogTerm: 2, Entries: entries(f.from, f.to), LeaderCommitIndex: 20}
		got := behind(sent, base)
		if got.PrevLogEntry != f.want || uint64(len(got.Entries)) != f.entries || f.entries > 0 && got.Entries[0].Index != f.first || got.LeaderCommitIndex != 20 {
			t.Errorf("%+v became %+v", f, got)
		}
		if changed := f.want != f.previous; changed != (got.PrevLogTerm == 3) || sent.PrevLogEntry != f.previous || len(sent.Entries) != int(max(f.to+1, f.from)-f.from) {
			t.Errorf("%+v: term %d; the message of the sender is %+v", f, got.PrevLogTerm, sent)
		}
	}
}
