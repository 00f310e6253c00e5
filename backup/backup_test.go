package backup

import (
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/internal/version"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/store"
)

const week int64 = 7 * 24 * 3600 * 1_000_000_000

// server is a store with a Handler in front.
type server struct {
	*store.Store
	dir     string
	handler *Handler
	http    *httptest.Server
	client  *exchange.Client
	// fault, if set, may answer a request before the handler does.
	fault atomic.Pointer[func(w http.ResponseWriter, r *http.Request) bool]
}

func newServer(t testing.TB, opt HandlerOptions) *server {
	t.Helper()
	return newServerIn(t, t.TempDir(), opt)
}

// newServerIn is newServer over a directory with data.
func newServerIn(t testing.TB, dir string, opt HandlerOptions) *server {
	t.Helper()
	s := &server{dir: dir}
	var err error
	if s.Store, err = store.Open(s.dir, store.Options{RetentionInterval: -1}); err != nil {
		t.Fatal(err)
	}
	opt.Dir = s.dir
	s.handler = NewHandler(s.Store, opt)
	s.http = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f := s.fault.Load(); f != nil && (*f)(w, r) {
			return
		}
		s.handler.ServeHTTP(w, r)
	}))
	s.client = &exchange.Client{URL: s.http.URL}
	t.Cleanup(func() {
		s.http.Close()
		s.handler.Close()
		if err := s.Store.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func (s *server) apply(t testing.TB, cmd meta.Command) {
	t.Helper()
	if err := s.Apply(context.Background(), cmd); err != nil {
		t.Fatal(err)
	}
}

func (s *server) write(t testing.TB, db, rp, lines string) {
	t.Helper()
	if err := writeLines(s.Store, db, rp, lines); err != nil {
		t.Fatal(err)
	}
}

func writeLines(st *store.Store, db, rp, lines string) error {
	table, err := st.Table(db)
	if err != nil {
		return err
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte(lines), lineproto.Options{}); err != nil {
		return err
	}
	return st.Write(context.Background(), db, rp, &b)
}

// someData makes two databases with odd names and values.
func (s *server) someData(t testing.TB) {
	t.Helper()
	s.apply(t, meta.CreateDatabase{Name: "d"})
	s.apply(t, meta.CreateDatabase{Name: `other "one"`})
	forever := time.Duration(0)
	s.apply(t, meta.CreateRetentionPolicy{Database: "d", Policy: meta.RetentionPolicySpec{Name: "long", Duration: &forever}})
	var b strings.Builder
	for i := range int64(400) {
		at := 10*week + i*(week/100)
		fmt.Fprintf(&b, "cpu,host=h%d usage=%g,n=%di,u=%du,on=%t,text=\"a \\\"quoted\\\" \\\\ %d\" %d\n", i%7, float64(i)/3, -i, uint64(i)<<50, i%2 == 0, i, at)
		fmt.Fprintf(&b, "odd\\\\\"\\ name\\,x,ta\\ g=v\\=1\\,2 fi\\\\\"\\ eld\\,\\==1e-300 %d\n", at)
	}
	s.write(t, "d", "", b.String())
	s.write(t, "d", "long", "cpu,host=z usage=-0.5 1\ncpu,host=z usage=1e300 2\nmem free=5i 3\nmem lost=0x7ff0000000000002,most=0xfff0000000000000 5\nmem lost=0xffffffffffffffff 6\nmem text=\"two\nlines\" 4\n")
	s.write(t, `other "one"`, "", "m,t=1 v=1 1000\n")
	err := s.Delete(context.Background(), scan.DeleteRequest{Database: "d", Range: model.TimeRange{Min: 10 * week, Max: 10*week + 5*(week/100)}})
	if err != nil {
		t.Fatal(err)
	}
	s.write(t, "d", "", fmt.Sprintf("cpu,host=h1 usage=42 %d\n", 10*week+1))
}

// dump returns the points of a store, sorted.
func dump(t testing.TB, src exchange.Source, f exchange.Filter) []string {
	t.Helper()
	var b bytes.Buffer
	n, err := exchange.Export(context.Background(), src, &b, exchange.ExportOptions{Filter: f, LinesOnly: true})
	if err != nil {
		t.Fatal(err)
	}
	// Text values of the tests may have line breaks.
	lines := strings.Split(strings.ReplaceAll(b.String(), "two\nlines", "two_lines"), "\n")
	lines = lines[:len(lines)-1]
	if int64(len(lines)) != n {
		t.Fatalf("%d lines, %d points exported", len(lines), n)
	}
	slices.Sort(lines)
	return lines
}

func same(t testing.TB, what string, got, want []string) {
	t.Helper()
	if slices.Equal(got, want) {
		return
	}
	t.Errorf("%s: %d points, want %d", what, len(got), len(want))
	for i := range min(len(got), len(want)) {
		if got[i] != want[i] {
			t.Errorf("point %d is %q, want %q", i, got[i], want[i])
			return
		}
	}
}

func take(t testing.TB, s *server, dir string, f exchange.Filter) *Result {
	t.Helper()
	res, err := Take(context.Background(), s.client, OpenRepository(vfs.OS, dir), TakeOptions{Filter: f})
	if err != nil {
		t.Fatal(err)
	}
	return res
}

func openDir(t testing.TB, dir string) *store.Store {
	t.Helper()
	st, err := store.Open(dir, store.Options{RetentionInterval: -1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := st.Close(); err != nil {
			t.Error(err)
		}
	})
	return st
}

// TestIncremental copies only what is new.
func TestIncremental(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	dir := t.TempDir()
	first := take(t, s, dir, exchange.Filter{})
	want := dump(t, s, exchange.Filter{})
	if again := take(t, s, dir, exchange.Filter{}); again.Copied != 0 || again.Bytes != first.Bytes {
		t.Errorf("nothing is new, copied %d of %d", again.Copied, again.Bytes)
	}
	s.write(t, "d", "", fmt.Sprintf("cpu,host=h1 usage=1 %d\n", 12*week))
	more := take(t, s, dir, exchange.Filter{})
	if more.Copied == 0 || more.Copied > first.Bytes/4 {
		t.Errorf("copied %d for one point, the whole is %d", more.Copied, more.Bytes)
	}
	r := OpenRepository(vfs.OS, dir)
	names, err := r.List(t.Context())
	if err != nil || len(names) != 3 {
		t.Fatal(names, err)
	}
	for i, n := range names {
		_, m, err := r.Manifest(t.Context(), n)
		if err != nil || m.Program != version.String() {
			t.Fatalf("%s: taken by %q, %v", n, m.Program, err)
		}
		var last Progress
		tell := func(p Progress) { last = p }
		if damage, err := r.Check(context.Background(), m, tell); err != nil || len(damage) > 0 || last.Objects == 0 || last.ObjectsDone != last.Objects || last.BytesDone != m.Bytes() {
			t.Errorf("%s: %v %v", n, damage, err)
		}
		st, _, err := Open(t.Context(), r, RestoreOptions{Backup: n})
		if err != nil {
			t.Fatal(err)
		}
		points := dump(t, st, exchange.Filter{})
		if i < 2 {
			same(t, n, points, want)
		} else if len(points) != len(want)+1 {
			t.Errorf("%s: %d points", n, len(points))
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
	}
	// What only the older backups name goes with them.
	backups, _, err := r.Prune(t.Context(), 1)
	if err != nil || backups != 2 {
		t.Fatal(backups, err)
	}
	_, m, err := r.Manifest(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	if damage, err := r.Check(context.Background(), m, nil); err != nil || len(damage) > 0 {
		t.Errorf("after prune: %v %v", damage, err)
	}
	left, err := vfs.OS.List(dir + "/objects")
	if err != nil || len(left) != len(m.objects()) {
		t.Errorf("%d objects left, %d needed, %v", len(left), len(m.objects()), err)
	}
}

// TestResume breaks a backup off in the middle of an object.
func TestResume(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	var b strings.Builder
	for i := range 60000 {
		fmt.Fprintf(&b, "big v=%d.%d %d\n", i*7919%1000003, i*31%1000, 30*week+int64(i)*1e9)
	}
	s.write(t, "d", "", b.String())
	dir := t.TempDir()
	r := OpenRepository(vfs.OS, dir)
	// The server's connection breaks within each larger object.
	cut := func(w http.ResponseWriter, q *http.Request) bool {
		if !q.URL.Query().Has("object") {
			return false
		}
		rec := httptest.NewRecorder()
		s.handler.ServeHTTP(rec, q)
		body := rec.Body.Bytes()
		for k, v := range rec.Header() {
			w.Header()[k] = v
		}
		w.WriteHeader(rec.Code)
		if len(body) > 50_000 {
			body = body[:50_000]
		}
		_, _ = w.Write(body)
		if len(body) == 50_000 {
			panic(http.ErrAbortHandler)
		}
		return true
	}
	s.fault.Store(&cut)
	if _, err := Take(context.Background(), s.client, r, TakeOptions{Workers: 1}); err == nil {
		t.Fatal("a broken copy passes for a backup")
	}
	if names, _ := r.List(t.Context()); len(names) != 0 {
		t.Fatalf("a manifest of a backup that is not complete: %v", names)
	}
	parts, _ := filepath.Glob(dir + "/objects/*.part")
	if len(parts) == 0 {
		t.Fatal("no part is left to go on with")
	}
	have := int64(0)
	for _, p := range parts {
		st, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		have += st.Size()
	}
	s.fault.Store(nil)
	var ranged atomic.Int64
	spy := func(_ http.ResponseWriter, q *http.Request) bool {
		if q.Header.Get("Range") != "" {
			ranged.Add(1)
		}
		return false
	}
	s.fault.Store(&spy)
	res := take(t, s, dir, exchange.Filter{})
	if have == 0 || res.Copied > res.Bytes-have || ranged.Load() == 0 {
		t.Errorf("copied %d of %d, %d bytes were there, %d requests for a rest", res.Copied, res.Bytes, have, ranged.Load())
	}
	st, _, err := Open(t.Context(), r, RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	same(t, "resumed", dump(t, st, exchange.Filter{}), dump(t, s, exchange.Filter{}))
}

// TestBadPart begins anew when the part of an object is not what it should be.
func TestBadPart(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	dir := t.TempDir()
	m, err := begin(context.Background(), s.client, &exchange.Filter{}, false)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(dir+"/objects", 0o700); err != nil {
		t.Fatal(err)
	}
	for _, o := range m.objects() {
		if err := os.WriteFile(dir+"/objects/"+o.Name+".part", []byte("no"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := end(context.Background(), s.client, m.Session); err != nil {
		t.Fatal(err)
	}
	take(t, s, dir, exchange.Filter{})
	r := OpenRepository(vfs.OS, dir)
	if _, m, err = r.Manifest(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if damage, err := r.Check(context.Background(), m, nil); err != nil || len(damage) > 0 {
		t.Errorf("%v %v", damage, err)
	}
}

// TestDamagedOnTheWay flips a byte of each object as it is sent.
func TestDamagedOnTheWay(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	flip := func(w http.ResponseWriter, q *http.Request) bool {
		if !q.URL.Query().Has("object") {
			return false
		}
		rec := httptest.NewRecorder()
		s.handler.ServeHTTP(rec, q)
		b := rec.Body.Bytes()
		b[len(b)/2] ^= 4
		_, _ = w.Write(b)
		return true
	}
	s.fault.Store(&flip)
	_, err := Take(context.Background(), s.client, OpenRepository(vfs.OS, t.TempDir()), TakeOptions{})
	if !errors.Is(err, binio.ErrCorrupt) || !strings.Contains(err.Error(), " of shard ") && !strings.Contains(err.Error(), "series log") {
		t.Fatalf("damaged objects: %v", err)
	}
}

// TestCheckFindsDamage flips a byte of each object of a backup.
func TestCheckFindsDamage(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	dir := t.TempDir()
	take(t, s, dir, exchange.Filter{})
	r := OpenRepository(vfs.OS, dir)
	_, m, err := r.Manifest(t.Context(), "")
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range m.objects() {
		name := dir + "/objects/" + o.Name
		clean, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		bad := bytes.Clone(clean)
		bad[len(bad)*2/3] ^= 1
		if err := os.WriteFile(name, bad, 0o600); err != nil {
			t.Fatal(err)
		}
		damage, err := r.Check(context.Background(), m, nil)
		if err != nil || len(damage) != 1 || !strings.Contains(damage[0].Error(), o.Name) {
			t.Errorf("%s: %v %v", o.Name, damage, err)
		}
		if _, err := Place(context.Background(), r, t.TempDir(), RestoreOptions{}); err == nil {
			t.Errorf("%s: placed with damage", o.Name)
		}
		if err := os.WriteFile(name, clean, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	name := dir + "/" + mustList(t, r)[0] + ManifestSuffix
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)-20] ^= 1
	if err := os.WriteFile(name, b, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := r.Manifest(t.Context(), ""); err == nil {
		t.Error("a damaged manifest is read")
	}
}

func mustList(t *testing.T, r *Repository) []string {
	t.Helper()
	names, err := r.List(t.Context())
	if err != nil || len(names) == 0 {
		t.Fatal(names, err)
	}
	return names
}

func TestFilters(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	shards := s.Catalog().Database("d").RetentionPolicy("autogen").ShardGroups
	for name, f := range map[string]exchange.Filter{
		"database": {Database: `other "one"`},
		"policy":   {Database: "d", RetentionPolicy: "long"},
		"shard":    {Shards: []uint64{shards[1].Shards[0].ID}},
		"time":     {Database: "d", Range: shards[2].TimeRange()},
	} {
		t.Run(name, func(t *testing.T) {
			dir, data := t.TempDir(), t.TempDir()
			take(t, s, dir, f)
			r := OpenRepository(vfs.OS, dir)
			if _, err := Place(context.Background(), r, data, RestoreOptions{}); err != nil {
				t.Fatal(err)
			}
			want := dump(t, s, f)
			if len(want) == 0 {
				t.Fatal("the filter chooses nothing")
			}
			same(t, name, dump(t, openDir(t, data), exchange.Filter{}), want)
		})
	}
	for name, f := range map[string]exchange.Filter{
		"no such database": {Database: "x"}, "no such policy": {Database: "d", RetentionPolicy: "x"},
		"policy alone": {RetentionPolicy: "long"}, "no such shard": {Shards: []uint64{999}},
		"measurement": {Measurements: []string{"cpu"}},
	} {
		if _, err := Take(context.Background(), s.client, OpenRepository(vfs.OS, t.TempDir()), TakeOptions{Filter: f}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// TestOneMoment takes backups while writers write entries that reach over
// several shards and databases, and while deletes and catalog changes go on:
// in every backup an entry is there in all shards or in none, and nothing
// before it is missing.
func TestOneMoment(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.apply(t, meta.CreateDatabase{Name: "d"})
	const shards = 4
	stop := make(chan struct{})
	var wg sync.WaitGroup
	var entries atomic.Int64
	// What may be written from one backup to the next: as much as can be would
	// be the more, the longer it takes to read the backups, and so on.
	due := make(chan struct{}, 300)
	for w := range 3 {
		wg.Go(func() {
			for i := int64(1); ; i++ {
				select {
				case <-stop:
					return
				case <-due:
				}
				var b strings.Builder
				for k := range int64(shards) {
					fmt.Fprintf(&b, "m,w=%d v=%di %d\n", w, i, (10+k)*week+i)
				}
				if err := writeLines(s.Store, "d", "", b.String()); err != nil {
					t.Error(err)
					return
				}
				entries.Add(1)
			}
		})
	}
	wg.Go(func() { // deletes all of one series, again and again
		for i := int64(1); ; i++ {
			select {
			case <-stop:
				return
			case <-time.After(3 * time.Millisecond):
			}
			var b strings.Builder
			for k := range int64(shards) {
				fmt.Fprintf(&b, "gone,w=0 v=%di %d\n", i, (10+k)*week)
			}
			err := writeLines(s.Store, "d", "", b.String())
			if err == nil && i%2 == 0 {
				err = s.Delete(context.Background(), scan.DeleteRequest{Database: "d", Range: model.AllTime, Measurement: func(m string) bool { return m == "gone" }})
			}
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	dir := t.TempDir()
	r := OpenRepository(vfs.OS, dir)
	last := uint64(0)
	for range 12 {
		for range cap(due) - len(due) {
			due <- struct{}{}
		}
		for entries.Load() == 0 {
			time.Sleep(time.Millisecond)
		}
		before := entries.Load()
		res := take(t, s, dir, exchange.Filter{})
		if res.Sequence < last || res.Sequence == 0 {
			t.Errorf("sequence %d after %d", res.Sequence, last)
		}
		last = res.Sequence
		st, _, err := Open(t.Context(), r, RestoreOptions{Backup: res.Name})
		if err != nil {
			t.Fatal(err)
		}
		counts := map[string][shards]int64{}
		gone := map[string]int{}
		for _, line := range dump(t, st, exchange.Filter{}) {
			var w, v, at int64
			if _, err := fmt.Sscanf(line, "gone,w=%d v=%di %d", &w, &v, &at); err == nil {
				gone[fmt.Sprint(v)]++
				continue
			}
			if _, err := fmt.Sscanf(line, "m,w=%d v=%di %d", &w, &v, &at); err != nil {
				t.Fatal(line, err)
			}
			c := counts[fmt.Sprint(w)]
			c[at/week-10]++
			counts[fmt.Sprint(w)] = c
			if at%week != v {
				t.Errorf("%s: value of another time", line)
			}
		}
		if err := st.Close(); err != nil {
			t.Fatal(err)
		}
		total := int64(0)
		for w, c := range counts {
			total += c[0]
			for k := range c {
				if c[k] != c[0] {
					t.Errorf("writer %s: %v points in the shards", w, c)
					break
				}
			}
		}
		if total < before {
			t.Errorf("%d entries in the backup, %d were acknowledged before it", total, before)
		}
		for v, n := range gone {
			if n != shards || len(gone) != 1 {
				t.Errorf("series that is deleted: value %s in %d shards, %d values", v, n, len(gone))
			}
		}
	}
	close(stop)
	wg.Wait()
	if len(s.handler.sessions) != 0 {
		t.Errorf("%d sessions are left", len(s.handler.sessions))
	}
}

// TestSessions keeps files that are merged away while a session lives, and lets
// go of a session whose client is silent.
func TestSessions(t *testing.T) {
	s := newServer(t, HandlerOptions{Idle: 10 * time.Minute})
	s.someData(t)
	m, err := begin(context.Background(), s.client, &exchange.Filter{}, false)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range m.objects() {
		body, err := fetch(context.Background(), s.client, m.Session, o.Name, 0)
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.Copy(io.Discard, body); err != nil || n != o.Size {
			t.Errorf("%s: %d of %d bytes, %v", o.Name, n, o.Size, err)
		}
		_ = body.Close()
	}
	sessions := func(later time.Duration) int {
		s.handler.expireAt(time.Now().Add(later))
		s.handler.mu.Lock()
		defer s.handler.mu.Unlock()
		return len(s.handler.sessions)
	}
	if sessions(0) != 1 {
		t.Fatal("a session does not live")
	}
	// The last request may not have let go of it yet.
	for deadline := time.Now().Add(time.Minute); sessions(11*time.Minute) > 0; time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("a silent session lives on")
		}
	}
	var refusal *exchange.WriteError
	if _, err := fetch(context.Background(), s.client, m.Session, m.objects()[0].Name, 0); !errors.As(err, &refusal) || refusal.Status != http.StatusGone {
		t.Errorf("object of an ended session: %v", err)
	}
}

// TestDroppedMeanwhile drops a database between the begin of a backup and its
// copy: the backup is begun anew, and is one without it.
func TestDroppedMeanwhile(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	var once sync.Once
	drop := func(_ http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Has("object") {
			once.Do(func() {
				dirs := func() int { found, _ := filepath.Glob(filepath.Join(s.dir, "db-*")); return len(found) }
				before := dirs()
				s.apply(t, meta.DropDatabase{Name: "d"})
				// Until its files are gone, a backup may still have them.
				for end := time.Now().Add(time.Minute); dirs() == before && time.Now().Before(end); {
					time.Sleep(time.Millisecond)
				}
			})
		}
		return false
	}
	s.fault.Store(&drop)
	dir := t.TempDir()
	take(t, s, dir, exchange.Filter{})
	st, m, err := Open(t.Context(), OpenRepository(vfs.OS, dir), RestoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if len(m.Catalog.Databases) != 1 {
		t.Errorf("%d databases", len(m.Catalog.Databases))
	}
	same(t, "what is left", dump(t, st, exchange.Filter{}), []string{"m,t=1 v=1 1000"})
}

func TestAuthorize(t *testing.T) {
	s := newServer(t, HandlerOptions{Authorize: func(r *http.Request) error {
		if u, p, _ := r.BasicAuth(); u != "admin" || p != "secret" {
			return errors.New("who are you")
		}
		return nil
	}})
	s.someData(t)
	var refusal *exchange.WriteError
	if _, err := begin(context.Background(), s.client, &exchange.Filter{}, false); !errors.As(err, &refusal) || refusal.Status != http.StatusUnauthorized {
		t.Errorf("without a password: %v", err)
	}
	s.client.Username, s.client.Password = "admin", "secret"
	take(t, s, t.TempDir(), exchange.Filter{})
}

func TestEndpoints(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	for path, want := range map[string]int{
		"POST /api/tsdbd/backup?db=x":                404,
		"POST /api/tsdbd/backup?shard=x":             400,
		"POST /api/tsdbd/backup?start=5&end=4":       400,
		"GET /api/tsdbd/backup?session=x&object=y":   410,
		"DELETE /api/tsdbd/backup?session=x":         204,
		"GET /api/tsdbd/export?db=x":                 404,
		"GET /api/tsdbd/export?start=yesterday":      400,
		"GET /api/tsdbd/nothing":                     404,
		"PUT /api/tsdbd/backup":                      404,
		"GET /api/tsdbd/export?db=d&measurement=%5B": 400,
		"POST /api/tsdbd/verify":                     200,
	} {
		method, url, _ := strings.Cut(path, " ")
		req := httptest.NewRequest(method, url, nil)
		rec := httptest.NewRecorder()
		s.handler.ServeHTTP(rec, req)
		if rec.Code != want {
			t.Errorf("%s: %d %s, want %d", path, rec.Code, rec.Body, want)
		}
	}
}

// TestExportForms compares workers, gzip and the way over HTTP.
func TestExportForms(t *testing.T) {
	s := newServer(t, HandlerOptions{})
	s.someData(t)
	want := dump(t, s, exchange.Filter{})
	f := exchange.Filter{Database: "d", Measurements: []string{"c?u"}, Range: model.TimeRange{Min: 11 * week, Max: 12 * week}}
	part := dump(t, s, f)
	if len(part) < 90 || len(part) >= len(want) {
		t.Errorf("%d of %d points chosen", len(part), len(want))
	}
	read := func(b []byte) []string {
		lines := strings.Split(strings.TrimSuffix(strings.ReplaceAll(string(b), "two\nlines", "two_lines"), "\n"), "\n")
		lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, "#") || strings.HasPrefix(l, "CREATE") })
		slices.Sort(lines)
		return lines
	}
	var zipped, remote bytes.Buffer
	if _, err := exchange.Export(context.Background(), s, &zipped, exchange.ExportOptions{Gzip: true, Workers: 5}); err != nil {
		t.Fatal(err)
	}
	z, err := gzip.NewReader(&zipped)
	if err != nil {
		t.Fatal(err)
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		t.Fatal(err)
	}
	same(t, "gzip", read(plain), want)
	n, err := s.client.Export(context.Background(), &remote, exchange.ExportOptions{Filter: f})
	if err != nil || n != int64(len(part)) {
		t.Errorf("%d points, %v", n, err)
	}
	same(t, "over HTTP", read(remote.Bytes()), part)
	if _, err := exchange.Export(context.Background(), s, failingWriter{}, exchange.ExportOptions{}); !errors.Is(err, errDisk) {
		t.Errorf("a writer that fails: %v", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := exchange.Export(ctx, s, io.Discard, exchange.ExportOptions{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a context that has ended: %v", err)
	}
}

var errDisk = errors.New("disk full")

type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errDisk }
