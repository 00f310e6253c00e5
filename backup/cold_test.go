package backup

import (
	"errors"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"tsdbd/cold/coldtest"
	"tsdbd/cold/names"
	"tsdbd/exchange"
	"tsdbd/internal/identity"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/store"
)

// coldServer returns a server whose shards are all cold, in objects.
func coldServer(t *testing.T, objects object.Store) *server {
	t.Helper()
	cold, s := coldtest.Bucket{Objects: objects}, &server{dir: t.TempDir()}
	var err error
	if s.Store, err = store.Open(s.dir, cold.Options()); err != nil {
		t.Fatal(err)
	}
	s.handler = NewHandler(s.Store, HandlerOptions{Dir: s.dir, Cold: objects})
	s.http = httptest.NewServer(s.handler)
	s.client = &exchange.Client{URL: s.http.URL}
	t.Cleanup(func() {
		s.http.Close()
		s.handler.Close()
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	s.someData(t)
	cold.Chill(t, s.Store)
	return s
}

// faulty is a file system of which some operations fail.
type faulty struct {
	vfs.FS
	create      string // the name of a file that is not created
	held, close error  // of locks whose names begin with lock
	lock        string
}

var errFault = errors.New("fault")

func (f *faulty) Rename(from, to string) error {
	if f.create != "" && strings.HasSuffix(to, f.create) {
		return errFault
	}
	return f.FS.Rename(from, to)
}

func (f *faulty) Lock(name string) (vfs.Lock, error) {
	l, err := f.FS.Lock(name)
	if err != nil || f.lock == "" || !strings.HasPrefix(name, f.lock) {
		return l, err
	}
	return &faultyLock{l, f}, nil
}

type faultyLock struct {
	vfs.Lock
	fault *faulty
}

func (l *faultyLock) Held() error { return errors.Join(l.fault.held, l.Lock.Held()) }

func (l *faultyLock) Close() error { return errors.Join(l.fault.close, l.Lock.Close()) }

// TestColdRestoreFails has restores fail that leave bodies in the store. It keeps them for a
// directory on which a server can start, and for no other.
func TestColdRestoreFails(t *testing.T) {
	ctx, at := t.Context(), filepath.ToSlash(t.TempDir())
	fsys := &faulty{FS: vfs.OS}
	r := OpenRepository(fsys, at)
	s := coldServer(t, object.OpenDir(vfs.OS, at))
	if _, err := Take(ctx, s.client, r, TakeOptions{}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		what  string
		fault faulty
		stays bool
	}{
		{"nothing", faulty{}, true},
		{"the ledger", faulty{create: "ledger"}, false},
		{"the first copy of the catalog", faulty{create: "catalog.0"}, true},
		{"the second copy of the catalog", faulty{create: "catalog.1"}, true},
		{"a lock that is lost", faulty{lock: at + "/", held: errFault}, false},
		{"the release of a lock", faulty{lock: at + "/", close: errFault}, false},
	} {
		c.fault.FS = vfs.OS
		*fsys = c.fault
		_, err := Place(ctx, r, filepath.ToSlash(t.TempDir()), RestoreOptions{Cold: r.Cold()})
		if failed := c.fault != (faulty{FS: vfs.OS}); errors.Is(err, errFault) != failed || !failed && err != nil {
			t.Errorf("%s fails: %v", c.what, err)
		}
		nodes, err := names.Nodes(ctx, r.store)
		if err != nil || (len(nodes) == 1) != c.stays {
			t.Errorf("%s fails: lists of %q, %v", c.what, nodes, err)
		}
		for _, n := range nodes {
			if err := names.Forget(ctx, r.store, n); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestColdStoreInUse has somebody take a backup into the cold store for hours while a state is
// fetched: the bodies are fetched too. If that begins later, the list is there already.
func TestColdStoreInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, fsys := t.Context(), vfstest.New()
		objects, busy := object.OpenDir(fsys, "/cold"), 0
		c := &Cold{Objects: objects, Dir: "/cold", Node: "b", Owner: "node b", Busy: func(err error) {
			if busy++; !names.InUse(err) {
				t.Errorf("the store is busy: %v", err)
			}
		}}
		file := File{Name: "1.tsm", Object: Object{Name: "a.tsm", Size: 1}, Cold: true}
		if err := objects.Put(ctx, names.Key("a.tsm"), object.Content{Bytes: []byte("x")}); err != nil {
			t.Fatal(err)
		}
		spare := func(wantFetch, wantBusy int) []ShardManifest {
			t.Helper()
			m := &Manifest{Shards: []ShardManifest{{ID: 1, Files: []File{file}}}}
			fetch, _, err := c.spare(ctx, fsys, m)
			if err != nil || len(fetch) != wantFetch || m.Shards[0].Files[0].Cold != (wantFetch == 0) || busy != wantBusy {
				t.Errorf("%d objects are fetched, told %d times, %v; want %d, %d", len(fetch), busy, err, wantFetch, wantBusy)
			}
			return m.Shards
		}
		lock := func() vfs.Lock {
			t.Helper()
			l, err := lockBackups(ctx, objects, fsys, "/cold", "backup", "")
			if err != nil {
				t.Fatal(err)
			}
			return l
		}
		l := lock()
		spare(1, 1)
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		shards := spare(0, 1)
		l = lock()
		p := &placer{ctx: ctx, r: &Repository{fs: fsys}, cold: c}
		if _, err := p.stay(shards, identity.NewLineage()); err != nil {
			t.Errorf("the end of a transfer: %v", err)
		}
		if err := objects.Delete(ctx, names.Key("a.tsm")); err != nil {
			t.Fatal(err)
		}
		if _, err := p.stay(shards, identity.NewLineage()); err == nil || names.InUse(err) {
			t.Errorf("the end of a transfer whose object is missing: %v", err)
		}
		c.Node = ""
		if _, err := p.stay(shards, identity.NewLineage()); !names.InUse(err) {
			t.Errorf("a restore: %v", err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	})
}
