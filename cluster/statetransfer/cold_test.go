package statetransfer

import (
	"context"
	"io"
	"net/http/httptest"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tsdbd/backup"
	"tsdbd/cold/coldtest"
	"tsdbd/cold/names"
	"tsdbd/exchange"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/store"
	"tsdbd/store/layout"
)

// TestColdFiles copies a state with cold files: those that the store of the receiver has stay
// there, and others are copied. The list of the receiver is there before its state.
func TestColdFiles(t *testing.T) {
	ctx, at := t.Context(), t.TempDir()
	objects := object.OpenDir(vfs.OS, at)
	p := &peer{dir: t.TempDir()}
	cold := coldtest.Bucket{Objects: objects}
	var err error
	if p.Store, err = store.Open(p.dir, cold.Options()); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	h := backup.NewHandler(p.Store, backup.HandlerOptions{Dir: p.dir, Cold: objects})
	defer h.Close()
	s := httptest.NewServer(h)
	defer s.Close()
	p.client = &exchange.Client{URL: s.URL}
	p.fill(t, 1, 2)
	all := cold.Chill(t, p.Store)
	slices.Sort(all)
	if len(all) != 4 {
		t.Fatalf("%d cold files, want 4", len(all))
	}
	state := func(dir string) (tails, bodies int) {
		t.Helper()
		for suffix, n := range map[string]*int{".tail": &tails, ".tsm": &bodies} {
			found, err := filepath.Glob(filepath.Join(dir, layout.DatabasePrefix+"*", layout.ShardPrefix+"*", "*"+suffix))
			if err != nil {
				t.Fatal(err)
			}
			*n = len(found)
		}
		return tails, bodies
	}
	f := func(what string, from *backup.Cold, wantTails, wantBodies int) {
		t.Helper()
		dir := t.TempDir()
		opt := options(vfs.OS, dir)
		opt.Cold = from
		res, err := Fetch(ctx, p.client, opt)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		if tails, bodies := state(opt.incoming()); tails != wantTails || bodies != wantBodies || (res.Cold > 0) != (tails > 0) {
			t.Errorf("%s: %d tails and %d bodies, want %d and %d; %d bytes stay", what, tails, bodies, wantTails, wantBodies, res.Cold)
		}
		if from != nil {
			needed, err := names.All(ctx, from.Objects)
			if err != nil || len(needed) != wantTails {
				t.Errorf("%s: the list has %d names, want %d, %v", what, len(needed), wantTails, err)
			}
		}
		if err := Switch(opt); err != nil {
			t.Fatal(err)
		}
		st, err := store.Open(dir, cold.Options())
		if err != nil {
			t.Fatal(err)
		}
		defer st.Close()
		if got, want := dump(t, st), dump(t, p); !slices.Equal(got, want) {
			t.Errorf("%s: %d lines, the peer has %d", what, len(got), len(want))
		}
	}
	f("no store", nil, 0, 4)
	f("the store of the peer", &backup.Cold{Objects: objects, Dir: filepath.ToSlash(at), Node: "b"}, 4, 0)
	other := t.TempDir()
	part := object.OpenDir(vfs.OS, other)
	for i, name := range all {
		b, err := object.Read(ctx, objects, names.Key(name), 1<<20)
		if i == 0 {
			continue // missing
		} else if i == 1 {
			b = b[1:] // of another size
		}
		if err == nil {
			err = part.Put(ctx, names.Key(name), object.Content{Bytes: b})
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	f("a store with a part of the files", &backup.Cold{Objects: part, Dir: filepath.ToSlash(other), Node: "b"}, 2, 2)

	// An object that goes between the look at the store and the end of the transfer is an error,
	// and the next try copies its file.
	gone := all[2]
	vanishing := vanishing{part, names.Key(gone)}
	opt := options(vfs.OS, t.TempDir())
	opt.Cold = &backup.Cold{Objects: vanishing, Dir: filepath.ToSlash(other), Node: "b"}
	if _, err := Fetch(ctx, p.client, opt); err == nil || !strings.Contains(err.Error(), gone) {
		t.Errorf("transfer with an object that goes: %v", err)
	}
	f("the try after an object has gone", &backup.Cold{Objects: part, Dir: filepath.ToSlash(other), Node: "b"}, 1, 3)
}

// vanishing is a store with an object that is gone once somebody reads it.
type vanishing struct {
	object.Store
	name string
}

func (v vanishing) ReadRange(ctx context.Context, name string, offset, length int64) (io.ReadCloser, error) {
	if name == v.name {
		if err := v.Delete(ctx, name); err != nil {
			return nil, err
		}
	}
	return v.Store.ReadRange(ctx, name, offset, length)
}
