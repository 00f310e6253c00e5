package query

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// run executes a request and returns each result as a line.
func runText(t *testing.T, e *Executor, opt ExecuteOptions, text string) []string {
	t.Helper()
	return runContext(t, t.Context(), e, opt, text)
}

func runContext(t *testing.T, ctx context.Context, e *Executor, opt ExecuteOptions, text string) []string {
	t.Helper()
	q, err := syntax.Parse(text, nil)
	mustOK(t, err)
	var lines []string
	mustOK(t, e.Execute(ctx, q, opt, func(r *result.Result) error {
		lines = append(lines, resultText(r))
		return nil
	}))
	return lines
}

// sampleStore has two policies and series in two shard groups.
func sampleStore(t *testing.T) *scantest.Store {
	store := scantest.New()
	for _, cmd := range []meta.Command{
		meta.CreateDatabase{Name: "db"},
		meta.CreateDatabase{Name: "other"},
		meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "rp2"}},
	} {
		mustOK(t, store.Apply(t.Context(), cmd))
	}
	store.Write(t, "db", "", "s", "cpu,host=a,az=x v=1 1000000000\ncpu,host=b v=1,w=2i 1000000000\ncpu,host=a,az=x v=1 1600000000\nmem,host=c f=t 1000000000\nup v=1 1000000000")
	store.Write(t, "db", "rp2", "s", "cpu,host=z v=\"s\" 1000000000\nold v=1 1000000000")
	store.Write(t, "other", "", "s", "disk,path=/ v=1 1000000000")
	return store
}

func newExecutor(store *scantest.Store) *Executor { return New(Options{Storage: store, Admin: store}) }

// TestStatements runs statements of each way to run (see rules). What the statements of
// package show answer is in its scripts.
func TestStatements(t *testing.T) {
	store := sampleStore(t)
	e := newExecutor(store)
	for _, c := range []struct{ q, want string }{
		{`SHOW DATABASES`, `databases(name): db; other`},
		{`SHOW MEASUREMENTS`, `measurements(name): cpu; mem; old; up`},
		{`SHOW SERIES FROM rp2././`, `(key): cpu,host=z; old`},
		{`SHOW TAG VALUES FROM rp2.cpu WITH KEY = host`, `cpu(key value): host z`},
		{`SHOW TAG KEYS WHERE v > 1`, `error: Expression too complex for metaquery: v > 1`},
		{`DROP SERIES FROM cpu WHERE host = 1`, `error: shard 1: fields not supported in WHERE clause during deletion`},
		{`DELETE FROM cpu WHERE host = 1`, `error: shard 1: fields not supported in WHERE clause during deletion`},
		{`SHOW SHARD GROUPS`, `shard groups(id database retention_policy start_time end_time expiry_time): ` +
			`1 db autogen 2001-09-03T00:00:00Z 2001-09-10T00:00:00Z ; 2 db autogen 2020-09-07T00:00:00Z 2020-09-14T00:00:00Z ; ` +
			`3 db rp2 2001-09-03T00:00:00Z 2001-09-10T00:00:00Z ; 4 other autogen 2001-09-03T00:00:00Z 2001-09-10T00:00:00Z `},
		{`SHOW STATS FOR 'database'`, `database,database=db(numMeasurements numSeries): 4 6 | database,database=other(numMeasurements numSeries): 1 1`},
		{`SHOW DIAGNOSTICS FOR 'nope'`, ``},
		{`DELETE FROM cpu WHERE v > 1`, `error: shard 1: fields not supported in WHERE clause during deletion`},
		{`DELETE FROM nope.cpu`, `error: retention policy not found: nope`},
		{`DROP SERIES WHERE time > 1s`, `error: DROP SERIES doesn't support time in WHERE clause`},
		{`CREATE SUBSCRIPTION s ON db.autogen DESTINATIONS ALL 'http://h'`, `error: invalid subscription URL: http://h`},
		{`CREATE SUBSCRIPTION s ON db.autogen DESTINATIONS ALL 'ftp://h:1'`, `error: invalid subscription URL: ftp://h:1`},
		{`CREATE SUBSCRIPTION s ON db.nope DESTINATIONS ALL 'udp://h:1'`, `error: retention policy not found: nope`},
		{`DROP SUBSCRIPTION s ON db.autogen`, `error: subscription not found`},
		{`DROP SHARD 99`, `error: shard not found`},
		{`SELECT v FROM nope..cpu`, `error: database not found: nope`},
		{`SELECT v FROM _series`, `error: unable to use system source '_series': use SHOW SERIES instead`},
	} {
		if got := strings.Join(runText(t, e, ExecuteOptions{Database: "db"}, c.q), " & "); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.q, got, c.want)
		}
	}
	if store.Views() != 0 {
		t.Errorf("%d views were not released", store.Views())
	}
}

// What deletes leave behind.
func TestDeletes(t *testing.T) {
	for _, c := range []struct{ q, show, want string }{
		{`DROP MEASUREMENT cpu`, `SHOW SERIES FROM cpu, rp2.cpu`, ``},
		{`DROP MEASUREMENT cpu`, `SHOW FIELD KEYS FROM cpu`, ``},
		{`DROP SERIES FROM cpu WHERE host = 'a'`, `SHOW TAG VALUES WITH KEY = host`, `cpu(key value): host b; host z | mem(key value): host c`},
		{`DELETE WHERE time < 1500000000s`, `SHOW SERIES`, `(key): cpu,az=x,host=a`},
		{`DELETE FROM cpu WHERE time < 1500000000s AND host = 'a'`, `SHOW SERIES FROM cpu`, `(key): cpu,az=x,host=a; cpu,host=b`},
		{`DELETE FROM rp2.cpu`, `SHOW TAG VALUES WITH KEY = host`, `cpu(key value): host a; host b | mem(key value): host c`},
		{`DELETE FROM /c|m/, rp2.old`, `SHOW MEASUREMENTS`, `measurements(name): up`},
		{`DELETE FROM cpu WHERE 1 = 1`, `SHOW SERIES`, `(key): mem,host=c; up`},
		{`DROP SERIES FROM cpu WHERE 1 = 1`, `SHOW SERIES`, `(key): mem,host=c; up`},
		{`DROP SERIES FROM cpu WHERE 1 = 2`, `SHOW SERIES`, `(key): cpu,az=x,host=a; cpu,host=b; mem,host=c; up`},
		{`DELETE FROM cpu WHERE time > 9s AND time < 8s`, `SHOW SERIES FROM cpu`, `(key): cpu,az=x,host=a; cpu,host=b`},
		{`DROP RETENTION POLICY rp2 ON db`, `SHOW MEASUREMENTS`, `measurements(name): cpu; mem; up`},
		{`DROP SHARD 1`, `SHOW SERIES`, `(key): cpu,az=x,host=a`},
		{`DROP DATABASE db`, `SHOW SERIES`, `error: database not found: db`},
	} {
		e := newExecutor(sampleStore(t))
		got := runText(t, e, ExecuteOptions{Database: "db"}, c.q+";"+c.show)
		if !slices.Equal(got, []string{"", c.want}) {
			t.Errorf("%s; %s\n got %q\nwant %s", c.q, c.show, got, c.want)
		}
	}
	e := newExecutor(sampleStore(t))
	for _, q := range []string{`DELETE FROM cpu`, `DROP SERIES FROM cpu`, `DROP MEASUREMENT cpu`} {
		if got := runText(t, e, ExecuteOptions{Database: "nope"}, q); got[0] != "error: database not found: nope" {
			t.Errorf("%s in an unknown database: %q", q, got)
		}
	}
}

// What moves leave behind.
func TestMoves(t *testing.T) {
	for _, c := range []struct{ q, answer, show, want string }{
		{`ALTER MEASUREMENT up RENAME TO "is up"`, `result(time series merged): 0 1 0`, `SHOW MEASUREMENTS`, `measurements(name): cpu; is up; mem; old`},
		{`ALTER MEASUREMENT cpu RENAME TAG host TO "server"`, `result(time series merged): 0 3 0`, `SHOW SERIES FROM cpu, rp2.cpu`, `(key): cpu,az=x,server=a; cpu,server=b; cpu,server=z`},
		{`ALTER MEASUREMENT cpu RENAME FIELD w TO "the w"`, `result(time series merged): 0 3 0`, `SELECT "the w" FROM cpu`, `cpu(time the w): 1000000000000000000 2`},
		{`UPDATE cpu SET host = 'q', az = 'it\'s' WHERE host = 'b'`, `result(time series merged): 0 1 0`, `SHOW SERIES FROM cpu`, `(key): cpu,az=it's,host=q; cpu,az=x,host=a`},
		{`update cpu drop tag az, host`, `result(time series merged): 0 3 2`, `SHOW SERIES FROM cpu`, `(key): cpu`},
		{`UPDATE cpu DROP TAG az WHERE 1 = 2`, `result(time series merged): 0 0 0`, `SHOW SERIES FROM cpu`, `(key): cpu,az=x,host=a; cpu,host=b`},
		{`UPDATE cpu SET host = 'q' WHERE v > 5`, `error: fields not supported in WHERE clause of UPDATE`, `SHOW SERIES FROM mem`, `(key): mem,host=c`},
		{`UPDATE cpu SET host = 'q' WHERE time > 5`, `error: UPDATE doesn't support time in WHERE clause`, `SHOW SERIES FROM mem`, `(key): mem,host=c`},
	} {
		e := newExecutor(sampleStore(t))
		var got []string
		for _, text := range []string{c.q, c.show} {
			got = append(got, extendedRun(t, t.Context(), e, ExecuteOptions{Database: "db"}, text)...)
		}
		if !slices.Equal(got, []string{c.answer, c.want}) {
			t.Errorf("%s; %s\n got %q\nwant %q", c.q, c.show, got, []string{c.answer, c.want})
		}
	}
	got := extendedRun(t, t.Context(), newExecutor(sampleStore(t)), ExecuteOptions{Database: "nope"}, `UPDATE cpu DROP TAG az`)
	if got[0] != "error: database not found: nope" {
		t.Errorf("in an unknown database: %q", got)
	}
}

// TestCardinalityOfGroups counts apart what differs only in where a zero byte lies.
func TestCardinalityOfGroups(t *testing.T) {
	m := scantest.New()
	mustOK(t, m.Apply(t.Context(), meta.CreateDatabase{Name: "db"}))
	put := func(tags model.Tags) {
		m.Put("db", "", string(model.AppendSeriesKey(nil, "m", tags)), 1, map[string]scantest.Value{"v": {Type: model.Float}})
	}
	put(model.Tags{{Key: "a", Value: "x\x00y"}, {Key: "b", Value: "z"}})
	put(model.Tags{{Key: "a", Value: "x"}, {Key: "b", Value: "y\x00z"}})
	got := runText(t, newExecutor(m), ExecuteOptions{Database: "db"}, `SHOW SERIES EXACT CARDINALITY GROUP BY a, b`)
	if want := "m,a=x,b=y\x00z(count): 1 | m,a=x\x00y,b=z(count): 1"; len(got) != 1 || got[0] != want {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

func TestStatementsAfterAFailure(t *testing.T) {
	e := newExecutor(sampleStore(t))
	got := runText(t, e, ExecuteOptions{Database: "db"}, `SHOW DATABASES; SHOW SERIES ON x; SHOW DATABASES; CREATE DATABASE y`)
	want := []string{`databases(name): db; other`, `error: database not found: x`, `error: not executed`, `error: not executed`}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
	if e.opt.Admin.Catalog().Database("y") != nil {
		t.Error("a statement after the failed one was executed")
	}
}

// TestWithoutPolicy: CREATE DATABASE makes no policy, unless it describes one.
func TestWithoutPolicy(t *testing.T) {
	e := newExecutor(sampleStore(t))
	e.opt.WithoutPolicy = true
	runText(t, e, ExecuteOptions{}, `CREATE DATABASE bare; CREATE DATABASE own WITH DURATION 7d`)
	catalog := e.opt.Admin.Catalog()
	if d := catalog.Database("bare"); d == nil || len(d.RetentionPolicies) != 0 || d.DefaultRetentionPolicy != "" {
		t.Errorf("%+v", d)
	}
	if d := catalog.Database("own"); d == nil || d.DefaultRetentionPolicy != "autogen" {
		t.Errorf("%+v", d)
	}
	runText(t, e, ExecuteOptions{}, `CREATE RETENTION POLICY week ON bare DURATION 7d REPLICATION 1 DEFAULT`)
	if d := e.opt.Admin.Catalog().Database("bare"); d.DefaultRetentionPolicy != "week" {
		t.Errorf("%+v", d)
	}
}

func TestWarnOfChanges(t *testing.T) {
	e := newExecutor(sampleStore(t))
	opt := ExecuteOptions{Database: "db", WarnOfChanges: true}
	for _, c := range []struct{ q, want string }{
		{`create database n`, `warning: deprecated use of 'CREATE DATABASE n' in a read only context, please use a POST request instead`},
		{`DROP SERIES FROM nope`, `warning: deprecated use of 'DROP SERIES FROM nope' in a read only context, please use a POST request instead`},
		{`DELETE FROM nope`, ``},
		{`SHOW USERS`, `(user admin): `},
		{`KILL QUERY 99`, `error: no such query id: 99`},
	} {
		if got := runText(t, e, opt, c.q); got[0] != c.want {
			t.Errorf("%s: %q", c.q, got)
		}
	}
}

func TestChunks(t *testing.T) {
	e := newExecutor(sampleStore(t))
	for q, want := range map[string][]string{
		`SHOW TAG VALUES WITH KEY = host`: {`cpu(key value): host a; host b; host z`, `mem(key value): host c`},
		`SHOW SERIES`:                     {`(key): cpu,az=x,host=a; cpu,host=b | ...`, `(key): mem,host=c; up`},
		`SHOW CONTINUOUS QUERIES`:         {`db(name query):  | other(name query): `},
	} {
		if got := runText(t, e, ExecuteOptions{Database: "db", ChunkSize: 2}, q); !slices.Equal(got, want) {
			t.Errorf("%s: %q", q, got)
		}
	}
}

func TestUserStatements(t *testing.T) {
	store := sampleStore(t)
	e := New(Options{
		Storage: store, Admin: store,
		HashPassword:  func(p string) (string, error) { return "#" + p, nil },
		CheckPassword: func(hash, p string) bool { return hash == "#"+p },
	})
	for _, c := range []struct{ q, want string }{
		{`CREATE USER root WITH PASSWORD 'r' WITH ALL PRIVILEGES`, ``},
		{`CREATE USER u WITH PASSWORD 'p'`, ``},
		{`CREATE USER u WITH PASSWORD 'p'`, ``},
		{`CREATE USER u WITH PASSWORD 'q'`, `error: user already exists`},
		{`CREATE USER u WITH PASSWORD 'p' WITH ALL PRIVILEGES`, `error: user already exists`},
		{`SHOW USERS`, `(user admin): root true; u false`},
		{`GRANT ALL ON db TO u`, ``},
		{`GRANT READ ON other TO u`, ``},
		{`SHOW GRANTS FOR u`, `(database privilege): db ALL PRIVILEGES; other READ`},
		{`REVOKE WRITE ON db FROM u`, ``},
		{`REVOKE ALL ON other FROM u`, ``},
		{`SHOW GRANTS FOR u`, `(database privilege): db READ; other NO PRIVILEGES`},
		{`GRANT ALL PRIVILEGES TO u`, ``},
		{`REVOKE ALL PRIVILEGES FROM root`, ``},
		{`SHOW USERS`, `(user admin): root false; u true`},
		{`SET PASSWORD FOR u = 'n'`, ``},
		{`CREATE USER u WITH PASSWORD 'n' WITH ALL PRIVILEGES`, ``},
		{`DROP USER root`, ``},
		{`DROP USER root`, `error: user not found`},
		{`SET PASSWORD FOR root = 'n'`, `error: user not found`},
		{`GRANT READ ON nope TO u`, `error: database not found: nope`},
		{`GRANT READ ON db TO nope`, `error: user not found`},
		{`REVOKE READ ON db FROM nope`, `error: user not found`},
	} {
		if got := strings.Join(runText(t, e, ExecuteOptions{}, c.q), " & "); got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.q, got, c.want)
		}
	}
	got := runText(t, e, ExecuteOptions{MaySee: func(db string) bool { return db == "other" }}, `SHOW DATABASES`)
	if got[0] != `databases(name): other` {
		t.Errorf("filtered databases: %q", got)
	}
}

func TestPanicIsAnError(t *testing.T) {
	store := sampleStore(t)
	e := New(Options{Storage: &brokenStore{Store: store, panic: "boom"}, Admin: store})
	got := runText(t, e, ExecuteOptions{Database: "db"}, `SHOW SERIES; SHOW DATABASES`)
	if !slices.Equal(got, []string{`error: SHOW SERIES ON db [panic:boom]`, `error: not executed`}) {
		t.Errorf("got %q", got)
	}
	stats := runText(t, e, ExecuteOptions{}, `SHOW STATS FOR 'queryExecutor'`)
	if !strings.HasPrefix(stats[0], `queryExecutor(queriesActive queriesExecuted queriesFinished queryDurationNs recoveredPanics): 1 2 1 `) ||
		!strings.HasSuffix(stats[0], " 1") {
		t.Errorf("statistics: %q", stats)
	}
}

// panickingScan panics on the workers of a SELECT.
type panickingScan struct{ *scantest.Store }

func (p panickingScan) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := p.Store.View(db, rp, r)
	return panickingView{v}, err
}

type panickingView struct{ scan.View }

func (v panickingView) Shards() (out []scan.Shard) {
	for _, s := range v.View.Shards() {
		out = append(out, panickingShard{s})
	}
	return out
}

type panickingShard struct{ scan.Shard }

func (s panickingShard) Charged(func(int64) error) scan.Shard { return s }

func (panickingShard) Scan(context.Context, scan.Request) (scan.Cursor, error) { panic("boom") }

// A panic of a worker names its statement, and is counted and logged with its stack.
func TestPanicOfAWorker(t *testing.T) {
	store := scantest.New()
	store.Create("db", "rp")
	store.Write(t, "db", "rp", "s", "m v=1 1")
	var log strings.Builder
	e := New(Options{Storage: panickingScan{store}, Admin: store, Logger: slog.New(slog.NewTextHandler(&log, nil))})
	got := runText(t, e, ExecuteOptions{Database: "db"}, `SELECT mean(v) FROM m`)
	if want := "error: SELECT mean(v) FROM db.rp.m [panic:boom]"; got[0] != want {
		t.Errorf("got %q, want %q", got[0], want)
	}
	if stats := runText(t, e, ExecuteOptions{}, `SHOW STATS FOR 'queryExecutor'`); !strings.HasSuffix(stats[0], " 1") {
		t.Errorf("statistics: %q", stats)
	}
	if !strings.Contains(log.String(), "panickingShard.Scan") {
		t.Errorf("no stack of the worker in %s", log.String())
	}
}

func TestStorageErrors(t *testing.T) {
	store := sampleStore(t)
	e := New(Options{Storage: &brokenStore{Store: store, err: errBroken}, Admin: store})
	for _, q := range []string{
		`SHOW SERIES`, `SHOW MEASUREMENTS`, `SHOW TAG KEYS`, `SHOW TAG VALUES WITH KEY = host`, `SHOW FIELD KEYS`,
		`SHOW SERIES CARDINALITY`, `SHOW SERIES EXACT CARDINALITY`, `SHOW FIELD KEY CARDINALITY`, `SHOW MEASUREMENT CARDINALITY`,
	} {
		if got := runText(t, e, ExecuteOptions{Database: "db"}, q); !slices.Equal(got, []string{"error: broken"}) {
			t.Errorf("%s: %q", q, got)
		}
	}
}

func TestConsumerErrorStopsTheQuery(t *testing.T) {
	e := newExecutor(sampleStore(t))
	q, err := influxql.ParseQuery(`SHOW DATABASES; CREATE DATABASE y`)
	mustOK(t, err)
	gone := errors.New("client is gone")
	calls := 0
	err = e.Execute(t.Context(), q, ExecuteOptions{}, func(*result.Result) error { calls++; return gone })
	if !errors.Is(err, gone) || calls != 1 || e.opt.Admin.Catalog().Database("y") != nil {
		t.Errorf("%v after %d calls", err, calls)
	}
}

// blocked runs a query that hangs in storage until release is called.
func blocked(t *testing.T, e *Executor, store *scantest.Store) (release func(), answer chan []string) {
	gate, entered, once := make(chan struct{}), make(chan struct{}), sync.Once{}
	store.Viewing = func() { once.Do(func() { close(entered) }); <-gate }
	answer = make(chan []string, 1)
	go func() {
		answer <- runText(t, e, ExecuteOptions{Database: "db", User: "ann"}, `SHOW SERIES; SHOW DATABASES`)
	}()
	<-entered
	return func() { close(gate) }, answer
}

func TestKillQuery(t *testing.T) {
	store := sampleStore(t)
	e := newExecutor(store)
	release, answer := blocked(t, e, store)
	list := runText(t, e, ExecuteOptions{}, `SHOW QUERIES`)[0]
	if !strings.HasPrefix(list, `(qid query database duration status user): 1 SHOW SERIES; SHOW DATABASES db `) &&
		!strings.HasPrefix(list, "(qid query database duration status user): 1 SHOW SERIES;\nSHOW DATABASES db ") || !strings.Contains(list, " running ann; 2 SHOW QUERIES ") {
		t.Errorf("queries: %q", list)
	}
	text := func() string { return "put off" }
	if list := runText(t, e, ExecuteOptions{Text: text}, `SHOW QUERIES`)[0]; !strings.Contains(list, " 3 put off ") {
		t.Errorf("queries: %q", list)
	}
	got := runText(t, e, ExecuteOptions{}, `KILL QUERY 1`)
	again := runText(t, e, ExecuteOptions{}, `KILL QUERY 1`)
	if got[0] != "" || again[0] != "error: already killed" {
		t.Errorf("kill: %q, again: %q", got, again)
	}
	if list := runText(t, e, ExecuteOptions{}, `SHOW QUERIES`)[0]; !strings.Contains(list, " killed ann") {
		t.Errorf("queries after the kill: %q", list)
	}
	release()
	if got := <-answer; !slices.Equal(got, []string{"error: query interrupted", "error: not executed"}) {
		t.Errorf("the killed query: %q", got)
	}
	if got := runText(t, e, ExecuteOptions{}, `KILL QUERY 1`); got[0] != "error: no such query id: 1" {
		t.Errorf("kill after the end: %q", got)
	}
}

func TestConcurrencyLimit(t *testing.T) {
	store := sampleStore(t)
	e := New(Options{Storage: store, Admin: store, Limits: admission.Limits{MaxConcurrentQueries: 1}})
	release, answer := blocked(t, e, store)
	if got := runText(t, e, ExecuteOptions{}, `SHOW DATABASES; SHOW DATABASES`); !slices.Equal(got, []string{"error: max-concurrent-queries limit exceeded(1, 1)"}) {
		t.Errorf("got %q", got)
	}
	release()
	if got := <-answer; len(got) != 2 || strings.Contains(got[0], "error") {
		t.Errorf("the running query: %q", got)
	}
	if got := runText(t, e, ExecuteOptions{}, `SHOW DATABASES`); strings.Contains(got[0], "error") {
		t.Errorf("after the end: %q", got)
	}
}

func TestQueryTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store := sampleStore(t)
		store.Viewing = func() { time.Sleep(2 * time.Second) }
		e := New(Options{Storage: store, Admin: store, Limits: admission.Limits{QueryTimeout: time.Second}})
		got := runText(t, e, ExecuteOptions{Database: "db"}, `SHOW SERIES; SHOW DATABASES`)
		if !slices.Equal(got, []string{"error: query-timeout limit exceeded", "error: not executed"}) {
			t.Errorf("got %q", got)
		}
	})
}

func TestClientDisconnect(t *testing.T) {
	store := sampleStore(t)
	ctx, cancel := context.WithCancel(t.Context())
	store.Viewing = cancel
	got := runContext(t, ctx, newExecutor(store), ExecuteOptions{Database: "db"}, `SHOW SERIES`)
	if !slices.Equal(got, []string{"error: context canceled"}) || store.Views() != 0 {
		t.Errorf("got %q, %d views open", got, store.Views())
	}
}

func TestNormalize(t *testing.T) {
	catalog := sampleStore(t).Catalog()
	for _, c := range []struct{ q, db, rp, want string }{
		{`SELECT v FROM cpu`, "db", "", `SELECT v FROM db.autogen.cpu`},
		{`SELECT v FROM cpu`, "db", "rp2", `SELECT v FROM db.rp2.cpu`},
		{`SELECT v FROM (SELECT v FROM cpu), other..disk`, "db", "", `SELECT v FROM (SELECT v FROM db.autogen.cpu), other.autogen.disk`},
		{`SELECT v INTO x FROM cpu`, "db", "", `SELECT v INTO db.autogen.x FROM db.autogen.cpu`},
		{`SELECT v FROM cpu`, "", "", `database name required`},
		{`SELECT v FROM cpu`, "x", "", `database not found: x`},
		{`SHOW TAG VALUES FROM cpu WITH KEY = a`, "db", "", `SHOW TAG VALUES ON db FROM cpu WITH KEY = a`},
		{`SHOW SERIES FROM cpu`, "db", "", `SHOW SERIES ON db FROM db.autogen.cpu`},
		{`DROP SERIES FROM cpu`, "db", "", `DROP SERIES FROM cpu`},
		{`DELETE FROM cpu`, "", "", `DELETE FROM cpu`},
		{`EXPLAIN SELECT v FROM cpu`, "db", "", `EXPLAIN SELECT v FROM db.autogen.cpu`},
		{
			`CREATE CONTINUOUS QUERY c ON other BEGIN SELECT mean(v) INTO o FROM disk GROUP BY time(1h) END`, "other", "",
			`CREATE CONTINUOUS QUERY c ON other BEGIN SELECT mean(v) INTO other.autogen.o FROM other.autogen.disk GROUP BY time(1h) END`,
		},
	} {
		stmt, err := influxql.ParseStatement(c.q)
		mustOK(t, err)
		got := ""
		if err := Normalize(stmt, catalog, c.db, c.rp); err != nil {
			got = err.Error()
		} else {
			got = stmt.String()
		}
		if got != c.want {
			t.Errorf("%s\n got %s\nwant %s", c.q, got, c.want)
		}
	}
}

// TestEmptyNames: an empty name is not that of the database of the request.
func TestEmptyNames(t *testing.T) {
	catalog := sampleStore(t).Catalog()
	for _, text := range []string{
		`DROP DATABASE ""`, `CREATE DATABASE ""`, `GRANT ALL ON "" TO bob`, `REVOKE ALL ON "" FROM bob`,
		`CREATE RETENTION POLICY x ON "" DURATION 1h REPLICATION 1`, `ALTER RETENTION POLICY autogen ON "" DURATION 1h`,
		`DROP RETENTION POLICY autogen ON ""`, `DROP CONTINUOUS QUERY c ON ""`, `EXECUTE CONTINUOUS QUERY c ON "" FROM 0 TO 1`,
		`CREATE DOWNSAMPLE ON "" FROM a INTO b EVERY 1h AS max`, `DROP DOWNSAMPLE ON "" FROM a INTO b`,
		`CREATE SUBSCRIPTION s ON ""."autogen" DESTINATIONS ALL 'http://h'`, `DROP SUBSCRIPTION s ON ""."autogen"`,
	} {
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Errorf("%s: %v", text, err)
			continue
		}
		stmt := q.Statements[0]
		before := stmt.String()
		if err := Normalize(stmt, catalog, "db", ""); err != nil || stmt.String() != before {
			t.Errorf("%s: %s, %v", text, stmt, err)
		}
		if name := databaseOf(stmt, "db"); name != "" {
			t.Errorf("%s is about %q", text, name)
		}
	}
}
