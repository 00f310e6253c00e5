package backup

import (
	"context"
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/vfs"
)

// inBucket opens the repository p in a bucket, with a staging directory.
func inBucket(t testing.TB, s *objecttest.Server, stage string) *Repository {
	t.Helper()
	store, err := s3.Open(s3.Options{Endpoint: s.URL, Bucket: objecttest.Bucket, Prefix: "p", AccessKey: "a", SecretKey: "b", Patience: 20 * time.Second, PartBytes: 50_000})
	if err != nil {
		t.Fatal(err)
	}
	r, err := OpenStaged(store, "s3://backups/p", StageOptions{FS: vfs.OS, Dir: stage})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func closed(t testing.TB, r *Repository) {
	t.Helper()
	if err := r.Close(); err != nil {
		t.Fatal(err)
	}
}

// files returns what is in a staging directory.
func files(t testing.TB, dir string) (out []string) {
	t.Helper()
	for _, sub := range []string{"parts", objectsDir} {
		names, err := vfs.OS.List(filepath.Join(dir, sub))
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			t.Fatal(err)
		}
		out = append(out, names...)
	}
	return out
}

func takeInto(t testing.TB, s *server, r *Repository) *Result {
	t.Helper()
	res, err := Take(t.Context(), s.client, r, TakeOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func mustCheck(t testing.TB, r *Repository, name string) *Manifest {
	t.Helper()
	_, m, err := r.Manifest(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	if damage, err := r.Check(t.Context(), m, nil); err != nil || len(damage) > 0 {
		t.Fatalf("check: %v, %v", damage, err)
	}
	return m
}

// TestBucket takes backups into a bucket and reads them back: the second copies nothing,
// a damaged object is found by its name and not restored, and no copy stays here.
func TestBucket(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	want := dump(t, s, exchange.Filter{})
	bucket, stage := objecttest.NewServer(t), t.TempDir()
	r := inBucket(t, bucket, stage)
	if first := takeInto(t, s, r); first.Copied != first.Bytes || first.Bytes == 0 {
		t.Errorf("%+v", first)
	}
	bucket.Requests.Store(0)
	var puts atomic.Int64
	bucket.Fault(func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/objects/") {
			puts.Add(1)
		}
		return false
	})
	again := takeInto(t, s, r)
	if again.Copied != 0 || puts.Load() > 0 {
		t.Errorf("nothing is new, %d bytes were copied, %d objects put", again.Copied, puts.Load())
	}
	if n := bucket.Requests.Load(); n > 16 {
		t.Errorf("a backup of nothing new takes %d requests", n)
	}
	bucket.Fault(nil)
	if names, err := r.List(t.Context()); err != nil || len(names) != 2 {
		t.Errorf("%v, %v", names, err)
	}
	m := mustCheck(t, r, "")
	if left := files(t, stage); len(left) > 0 {
		t.Errorf("after the check there is %q", left)
	}

	st, _, err := Open(t.Context(), r, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	same(t, "opened", dump(t, st, exchange.Filter{}), want)
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	closed(t, r)
	if left := files(t, stage); len(left) > 0 {
		t.Errorf("after the close there is %q", left)
	}

	// Of one database only its objects come here.
	r = inBucket(t, bucket, stage)
	part := exchange.Filter{Database: `other "one"`}
	if st, _, err = Open(t.Context(), r, RestoreOptions{Filter: part}); err != nil {
		t.Fatal(err)
	}
	same(t, "one database", dump(t, st, part), dump(t, s, part))
	if left := files(t, stage); len(left) == 0 || len(left) >= len(m.objects()) {
		t.Errorf("%d of %d objects were copied", len(left), len(m.objects()))
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}

	kinds := map[string]bool{}
	for _, o := range m.objects() {
		if kinds[filepath.Ext(o.Name)] {
			continue // one of each kind
		}
		kinds[filepath.Ext(o.Name)] = true
		key := "p/objects/" + o.Name
		clean := bucket.Object(t, key)
		for what, bad := range map[string][]byte{
			"flipped": append(append(slices.Clone(clean[:len(clean)/2]), clean[len(clean)/2]^4), clean[len(clean)/2+1:]...),
			"cut":     clean[:len(clean)-1],
			"longer":  append(slices.Clone(clean), 0),
		} {
			bucket.Replace(t, key, bad)
			damage, err := r.Check(t.Context(), m, nil)
			if err != nil || len(damage) != 1 || !errors.Is(damage[0], binio.ErrCorrupt) || !strings.Contains(damage[0].Error(), "s3://backups/p/objects/"+o.Name) {
				t.Errorf("%s is %s: %v %v", o.Name, what, damage, err)
			}
			if what == "longer" {
				continue // restore reads what the manifest says
			}
			if _, err := Place(t.Context(), r, t.TempDir(), RestoreOptions{}); !errors.Is(err, binio.ErrCorrupt) {
				t.Errorf("%s is %s: placed: %v", o.Name, what, err)
			}
			err = Restore(t.Context(), r, s.client, RestoreOptions{}, func(context.Context, io.Reader) error {
				t.Errorf("%s is %s: its points are sent", o.Name, what)
				return nil
			})
			if !errors.Is(err, binio.ErrCorrupt) {
				t.Errorf("%s is %s: restored: %v", o.Name, what, err)
			}
			closed(t, r)
			r = inBucket(t, bucket, stage)
		}
		bucket.Replace(t, key, clean)
	}
	data := t.TempDir()
	if _, err := Place(t.Context(), r, data, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "restored", dump(t, openDir(t, data), exchange.Filter{}), want)
	closed(t, r)
}

// TestBucketNeedsRoom says how much a backup takes on this machine before it copies it.
func TestBucketNeedsRoom(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	bucket := objecttest.NewServer(t)
	r := inBucket(t, bucket, t.TempDir())
	defer closed(t, r)
	takeInto(t, s, r)
	var notice string
	r.stage.notice = func(text string) { notice = text }
	r.fs = narrow{r.fs}
	bucket.Requests.Store(0)
	if _, _, err := Open(t.Context(), r, RestoreOptions{}); err == nil || !strings.Contains(err.Error(), "name another staging directory") || notice != "" {
		t.Errorf("no room: %v, %q", err, notice)
	}
	if n := bucket.Requests.Load(); n > 3 {
		t.Errorf("%d requests before the room is asked for", n)
	}
	r.fs = vfs.OS
	st, _, err := Open(t.Context(), r, RestoreOptions{})
	if err != nil || !strings.Contains(notice, "of the backup to "+r.local) {
		t.Fatalf("%v, %q", err, notice)
	}
	if err := st.Close(); err != nil {
		t.Error(err)
	}
}

// narrow is a file system without room.
type narrow struct{ vfs.FS }

func (narrow) Free(string) (uint64, error) { return 0, nil }

// TestBucketAfterKill takes a backup that is killed after each number of requests to
// the bucket, and goes on: what was sent is not sent again.
func TestBucketAfterKill(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	want := dump(t, s, exchange.Filter{})
	bucket, stage := objecttest.NewServer(t), t.TempDir()
	puts := map[string]int{} // of each object
	for n := int64(1); ; n += 3 {
		r := inBucket(t, bucket, stage)
		var requests atomic.Int64
		ctx, kill := context.WithCancel(t.Context())
		bucket.Fault(func(w http.ResponseWriter, q *http.Request) bool {
			if requests.Add(1) <= n {
				if q.Method == http.MethodPut && strings.Contains(q.URL.Path, "/objects/") {
					puts[q.URL.String()]++
				}
				return false
			}
			kill() // and nothing of this process is done any more
			objecttest.Refuse(w, http.StatusForbidden, "AccessDenied")
			return true
		})
		res, err := Take(ctx, s.client, r, TakeOptions{Workers: 1})
		bucket.Fault(nil)
		kill()
		// The process ends: its lease stays.
		if e := r.stage.lock.Close(); e != nil {
			t.Fatal(e)
		}
		if err == nil {
			if n < 20 || res.Copied > res.Bytes/2 {
				t.Errorf("%d requests, %d bytes copied in the last run of %d", n, res.Copied, res.Bytes)
			}
			break
		}
		if names, err := inBucketList(t, bucket, stage); err != nil || len(names) > 0 {
			t.Fatalf("a backup that was killed is there: %v, %v", names, err)
		}
	}
	for url, n := range puts {
		if n > 1 {
			t.Errorf("%s was sent %d times", url, n)
		}
	}
	r := inBucket(t, bucket, stage)
	defer closed(t, r)
	mustCheck(t, r, "")
	data := t.TempDir()
	if _, err := Place(t.Context(), r, data, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "restored", dump(t, openDir(t, data), exchange.Filter{}), want)
	if left := files(t, stage); len(left) > 0 {
		t.Errorf("left here: %q", left)
	}
}

func inBucketList(t testing.TB, bucket *objecttest.Server, stage string) ([]string, error) {
	r := inBucket(t, bucket, stage)
	defer closed(t, r)
	return r.List(t.Context())
}

// TestPruneBesideBackup: prune does not run beside a backup, and afterwards keeps what the
// kept backups name.
func TestPruneBesideBackup(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	bucket := objecttest.NewServer(t)
	r, other := inBucket(t, bucket, t.TempDir()), inBucket(t, bucket, t.TempDir())
	defer closed(t, r)
	defer closed(t, other)
	takeInto(t, s, r)
	s.write(t, "d", "", "cpu,host=new usage=1 7257600000000000\n") // the series log gets another end
	tried := 0
	beside := func(http.ResponseWriter, *http.Request) bool {
		if tried++; tried == 3 {
			if _, _, err := other.Prune(t.Context(), 1); !errors.Is(err, object.ErrHeld) || !strings.Contains(err.Error(), "in use by process ") {
				t.Errorf("prune beside a backup: %v", err)
			}
		}
		return false
	}
	s.fault.Store(&beside)
	if _, err := Take(t.Context(), s.client, r, TakeOptions{Workers: 1}); err != nil {
		t.Fatal(err)
	}
	if tried < 3 {
		t.Fatal("there was no backup to run beside")
	}
	// What is not ours stays.
	foreign := "p/objects/somebody.else"
	store := other.store
	if err := store.Put(t.Context(), "objects/somebody.else", object.Content{Bytes: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	backups, objects, err := other.Prune(t.Context(), 1)
	if err != nil || backups != 1 || objects == 0 {
		t.Errorf("%d backups and %d objects removed, %v", backups, objects, err)
	}
	m := mustCheck(t, r, "")
	if keys := bucket.Keys(t, "p/objects/"); len(keys) != len(m.objects())+1 || !slices.Contains(keys, foreign) {
		t.Errorf("%d objects are left, %d are needed: %q", len(keys), len(m.objects()), keys)
	}
}

// TestLostLease has somebody else take the bucket over while a backup is taken: the backup
// is none.
func TestLostLease(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	bucket := objecttest.NewServer(t)
	r := inBucket(t, bucket, t.TempDir())
	defer closed(t, r)
	// The first one leaves the objects, so that the second one puts the manifest alone.
	for _, c := range []struct{ name, at string }{{"before the manifest", "/objects/"}, {"with the manifest", ManifestSuffix}} {
		done := false
		bucket.Fault(func(_ http.ResponseWriter, q *http.Request) bool {
			if q.Method != http.MethodPut || done || !strings.Contains(q.URL.Path, c.at) {
				return false
			}
			done = true
			newest := bucket.Keys(t, "p/lease/")
			last := newest[len(newest)-1]
			// The next number but one: the owner renews at the same time, perhaps.
			next := last[:len(last)-len("0.lease")] + "f.lease"
			if err := r.store.Put(context.Background(), strings.TrimPrefix(next, "p/"), object.Content{Bytes: []byte(`{"owner":"else"}`)}); err != nil {
				t.Error(err)
			}
			return false
		})
		if _, err := Take(t.Context(), s.client, r, TakeOptions{Workers: 1}); !errors.Is(err, object.ErrLost) {
			t.Errorf("%s: %v", c.name, err)
		}
		bucket.Fault(nil)
		if names, err := r.List(t.Context()); err != nil || len(names) > 0 {
			t.Errorf("%s: there is %v, %v", c.name, names, err)
		}
		for _, k := range bucket.Keys(t, "p/lease/") {
			if err := r.store.Delete(t.Context(), strings.TrimPrefix(k, "p/")); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBucketThatFails has one of four requests fail: backups, prune and restore
// succeed, and nothing is wrong.
func TestBucketThatFails(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	bucket := objecttest.NewServer(t)
	var n atomic.Int64
	bucket.Fault(func(w http.ResponseWriter, q *http.Request) bool {
		switch n.Add(1) % 12 {
		case 3:
			objecttest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		case 7:
			panic(http.ErrAbortHandler)
		case 11: // it has done it, and says nothing
			bucket.Serve(&silent{}, q)
			panic(http.ErrAbortHandler)
		default:
			return false
		}
		return true
	})
	r := inBucket(t, bucket, t.TempDir())
	defer closed(t, r)
	takeInto(t, s, r)
	s.write(t, "d", "", "cpu,host=h1 usage=1 7257600000000000\n")
	takeInto(t, s, r)
	if backups, _, err := r.Prune(t.Context(), 1); err != nil || backups != 1 {
		t.Errorf("%d backups removed, %v", backups, err)
	}
	mustCheck(t, r, "")
	data := t.TempDir()
	if _, err := Place(t.Context(), r, data, RestoreOptions{}); err != nil {
		t.Fatal(err)
	}
	same(t, "restored", dump(t, openDir(t, data), exchange.Filter{}), dump(t, s, exchange.Filter{}))
}

// silent is an answer that nobody gets.
type silent struct{ header http.Header }

func (s *silent) Header() http.Header {
	if s.header == nil {
		s.header = http.Header{}
	}
	return s.header
}
func (*silent) Write(b []byte) (int, error) { return len(b), nil }
func (*silent) WriteHeader(int)             {}
