package promjudge

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http/httptest"
	"os"
	"reflect"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/testseed"
)

// queryFile is the variable of the environment that names the file with the queries of
// the PromQL compliance tester.
const queryFile = "TSDBD_PROMQL_QUERIES"

// TestCompliance asks the server and Prometheus' own HTTP API the queries of the PromQL
// compliance tester, and those of testdata/demo.yml, over the same data. It asks as the
// tester does: by the client of Prometheus, 20 at a time, for ten minutes that end twelve
// minutes before the data, every ten seconds.
func TestCompliance(t *testing.T) {
	data := NewDemo(rand.New(rand.NewPCG(testseed.Of(t), 200)))
	ref, err := NewReference(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer ref.Close()
	if err := ref.Store(t.Context(), data); err != nil {
		t.Fatal(err)
	}
	want := httptest.NewServer(ref.Handler(engineOptions(asked)))
	defer want.Close()
	server := apptest.Start(t)
	server.Query("", "CREATE DATABASE p")
	c := &compliance{want: promClient(t, want.URL), got: promClient(t, server.URL+"/prometheus/p")}
	c.span = v1.Range{End: time.UnixMilli(data.End).Add(-12*time.Minute + 345*time.Millisecond), Step: 10 * time.Second}
	c.span.Start = c.span.End.Add(-10 * time.Minute)
	own, err := testdata.ReadFile("testdata/demo.yml")
	if err != nil {
		t.Fatal(err)
	}
	ask := func(l layout) {
		t.Run(string(l), func(t *testing.T) {
			t.Run("demo", func(t *testing.T) {
				if against := c.run(t, own); against > 0 {
					t.Errorf("the reference answers %d queries otherwise than the file expects", against)
				}
			})
			t.Run("tester", func(t *testing.T) {
				path := os.Getenv(queryFile)
				if path == "" {
					t.Skipf("%s does not name the file promql/promql-test-queries.yml of github.com/prometheus/compliance", queryFile)
				}
				file, err := os.ReadFile(path)
				if err != nil {
					t.Fatal(err)
				}
				if against := c.run(t, file); against > 0 {
					t.Logf("the file is of another version of PromQL: Prometheus refuses or answers %d of its queries against it", against)
				}
			})
		})
	}
	const parts = 3
	for part := range parts {
		if part > 0 {
			server.Stop() // flushes
			server.Restart()
		}
		remoteWrite(t, server.URL+"/api/v1/prom/write?db=p", data.part(part, parts))
	}
	ask(mixed)
	server.Stop()
	server.Restart()
	ask(flushed)
	server.Stop()
	server.Env = append(server.Env, "TSDBD_DATA_COMPACT_AFTER=1ms")
	server.Restart()
	awaitCompacted(t, server)
	ask(compacted)
}

// part returns a part of the samples of each series.
func (d *Dataset) part(part, parts int) *Dataset {
	one := *d
	one.Series = nil
	for _, s := range d.Series {
		n := len(s.Samples)
		s.Samples = s.Samples[part*n/parts : (part+1)*n/parts]
		one.Series = append(one.Series, s)
	}
	return &one
}

// awaitCompacted waits until each shard has one file of data and one of index.
func awaitCompacted(t *testing.T, server *apptest.Server) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		shards, _ := server.Metric("tsdbd_shard_open")
		files, _ := server.Metric("tsdbd_shard_files")
		if shards > 0 && files <= 2*shards {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%v shards have %v files", shards, files)
		}
	}
}

func promClient(t *testing.T, url string) v1.API {
	t.Helper()
	client, err := api.NewClient(api.Config{Address: url})
	if err != nil {
		t.Fatal(err)
	}
	return v1.NewAPI(client)
}

// compliance compares the answers of two servers.
type compliance struct {
	got, want v1.API
	span      v1.Range
}

// atATime is the number of queries that run at a time.
const atATime = 20

// run asks the queries of a file. It returns the number of answers of the reference that
// the file does not expect.
func (c *compliance) run(t *testing.T, file []byte) int {
	templates, err := ParseTemplates(file)
	if err != nil {
		t.Fatal(err)
	}
	cases, err := Cases(templates)
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex
	passed, exact, valued, against := 0, 0, 0, 0
	var running sync.WaitGroup
	turns := make(chan struct{}, atATime)
	for _, one := range cases {
		turns <- struct{}{}
		running.Go(func() {
			defer func() { <-turns }()
			r := c.compare(t.Context(), one)
			mu.Lock()
			defer mu.Unlock()
			switch {
			case r.diff != "":
				t.Errorf("%s: %.1000s", one.Query, r.diff)
				return
			case r.exact:
				exact++
			}
			passed++
			if r.values > 0 {
				valued++
			}
			if r.against {
				against++
			}
		})
	}
	running.Wait()
	if len(cases) == 0 || valued < len(cases)/2 {
		t.Errorf("%d of %d answers have values", valued, len(cases))
	}
	t.Logf("%d of %d queries pass, %d of them to the last bit; %d have values", passed, len(cases), exact, valued)
	return against
}

// judgement is what comes of a case.
type judgement struct {
	diff    string // "" if the answers are equal
	exact   bool   // to the last bit
	against bool   // the reference has another answer than the file expects
	values  int    // of the answer
}

// compare asks both servers. The answer of the reference counts, also where the file
// expects another one: the file may be of an older version of the language.
func (c *compliance) compare(ctx context.Context, one Case) judgement {
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	want, _, _, wantErr := c.want.QueryRange(ctx, one.Query, c.span)
	got, _, _, gotErr := c.got.QueryRange(ctx, one.Query, c.span)
	switch {
	case (wantErr == nil) != (gotErr == nil):
		return judgement{diff: fmt.Sprintf("error %v, want %v", gotErr, wantErr)}
	case wantErr != nil:
		return judgement{exact: true, against: !one.ShouldFail}
	case one.Skip:
		return judgement{against: one.ShouldFail}
	}
	r := matricesDiffer(got.(model.Matrix), want.(model.Matrix))
	r.against = one.ShouldFail
	return r
}

func matricesDiffer(got, want model.Matrix) judgement {
	slices.SortFunc(got, streamOrder)
	slices.SortFunc(want, streamOrder)
	r := judgement{exact: true}
	if len(got) != len(want) {
		return judgement{diff: fmt.Sprintf("%d series, want %d", len(got), len(want))}
	}
	for i, w := range want {
		g := got[i]
		if !g.Metric.Equal(w.Metric) || len(g.Values) != len(w.Values) || !reflect.DeepEqual(g.Histograms, w.Histograms) {
			return judgement{diff: fmt.Sprintf("%s with %d values, want %s with %d", g.Metric, len(g.Values), w.Metric, len(w.Values))}
		}
		for k, v := range w.Values {
			a, b := float64(g.Values[k].Value), float64(v.Value)
			if g.Values[k].Timestamp != v.Timestamp || !nearlyEqual(a, b) {
				return judgement{diff: fmt.Sprintf("%s: %s, want %s", w.Metric, g.Values[k], v)}
			}
			r.exact = r.exact && sameFloat(a, b)
		}
		r.values += len(w.Values)
	}
	return r
}

func streamOrder(a, b *model.SampleStream) int {
	switch {
	case a.Metric.Before(b.Metric):
		return -1
	case b.Metric.Before(a.Metric):
		return 1
	}
	return 0
}

// nearlyEqual is the tester's: equal except for a share of 0.00001.
func nearlyEqual(a, b float64) bool {
	const share = 0.00001
	switch {
	case math.IsNaN(a) || math.IsNaN(b):
		return math.IsNaN(a) && math.IsNaN(b)
	case math.IsInf(a, 0) || math.IsInf(b, 0):
		return a == b
	}
	return math.Abs(a-b) <= share*min(math.Abs(a), math.Abs(b))
}
