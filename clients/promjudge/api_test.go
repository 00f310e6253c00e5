package promjudge

import (
	"bufio"
	"bytes"
	"embed"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/prompb"

	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/testkit/testseed"
)

//go:embed testdata
var testdata embed.FS

func TestMain(m *testing.M) { apptest.Main(m) }

// remoteWrite sends a dataset to a server.
func remoteWrite(t *testing.T, target string, data *Dataset) {
	t.Helper()
	for some := range slices.Chunk(data.Series, 100) {
		var req prompb.WriteRequest
		for _, s := range some {
			var one prompb.TimeSeries
			s.Labels.Range(func(l labels.Label) { one.Labels = append(one.Labels, prompb.Label{Name: l.Name, Value: l.Value}) })
			for _, v := range s.Samples {
				switch {
				case v.Int != nil:
					one.Histograms = append(one.Histograms, prompb.FromIntHistogram(v.Time, v.Int))
				case v.Float != nil:
					one.Histograms = append(one.Histograms, prompb.FromFloatHistogram(v.Time, v.Float))
				default: // the message leaves out a value that equals 0, the sign of -0 with it
					one.Samples = append(one.Samples, prompb.Sample{Timestamp: v.Time, Value: v.Value})
				}
			}
			req.Timeseries = append(req.Timeseries, one)
		}
		raw, err := req.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		resp, err := http.Post(target, "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, raw)))
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(resp.Body)
		resp.Body.Close()
		if err != nil || resp.StatusCode/100 != 2 {
			t.Fatalf("%s %s %v", resp.Status, text, err)
		}
	}
}

// apiRequest is a request to the HTTP API.
type apiRequest struct {
	method, path string
	params       url.Values
	// inURL says that the parameters of a POST are in the URL, with an empty form.
	inURL bool
	// loose says what is compared: "" all, "status" the code and the error type, "keys"
	// the shape, "type" the code alone with the type of the body.
	loose string
}

func (r apiRequest) String() string { return fmt.Sprintf("%s %s %v", r.method, r.path, r.params) }

// apiAnswer is what a server answers.
type apiAnswer struct {
	status      int
	contentType string
	body        any
	text        string
}

func (r apiRequest) send(base string) (a apiAnswer, err error) {
	var req *http.Request
	if r.method == http.MethodPost {
		target, form := base+r.path, r.params.Encode()
		if r.inURL {
			target, form = target+"?"+form, ""
		}
		req, err = http.NewRequest(r.method, target, strings.NewReader(form))
		if err == nil {
			req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		}
	} else {
		req, err = http.NewRequest(r.method, base+r.path+"?"+r.params.Encode(), nil)
	}
	if err != nil {
		return a, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return a, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		return a, err
	}
	a.status, a.contentType, a.text = resp.StatusCode, resp.Header.Get("Content-Type"), string(b)
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	_ = d.Decode(&a.body) // an answer that is no JSON has only its text
	return a, nil
}

// differs says how an answer differs from that of Prometheus.
func (r apiRequest) differs(got, want apiAnswer) string {
	if got.status != want.status || got.contentType != want.contentType {
		return fmt.Sprintf("%d %s, want %d %s\n got %.400s\nwant %.400s", got.status, got.contentType, want.status, want.contentType, got.text, want.text)
	}
	g, w := r.canonical(got.body), r.canonical(want.body)
	switch r.loose {
	case "type":
		return ""
	case "status":
		g, w = pick(g, "status", "errorType"), pick(w, "status", "errorType")
	case "keys":
		g, w = shape(g), shape(w)
	}
	if w == nil || reflect.DeepEqual(g, w) {
		return ""
	}
	at := 0 // where the texts begin to differ
	for at < min(len(got.text), len(want.text)) && got.text[at] == want.text[at] {
		at++
	}
	at = max(at-200, 0)
	return fmt.Sprintf("from byte %d on\n got %.400s\nwant %.400s", at, got.text[at:], want.text[at:])
}

// canonical sorts what has no order: notes, and the elements of a vector unless the query
// sorts them. If some notes are omitted, any may be: only their number is left.
func (r apiRequest) canonical(body any) any {
	doc, _ := body.(map[string]any)
	for _, name := range []string{"warnings", "infos"} {
		if notes, ok := doc[name].([]any); ok {
			slices.SortFunc(notes, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
			if strings.Contains(fmt.Sprint(notes...), " omitted") {
				doc[name] = len(notes)
			}
		}
	}
	data, _ := doc["data"].(map[string]any)
	if result, ok := data["result"].([]any); ok && data["resultType"] == "vector" && !hasOrder(r.params.Get("query")) {
		slices.SortFunc(result, func(a, b any) int { return strings.Compare(fmt.Sprint(a), fmt.Sprint(b)) })
	}
	return body
}

// pick returns some members of a document.
func pick(body any, keys ...string) any {
	out := map[string]any{}
	if m, ok := body.(map[string]any); ok {
		for _, k := range keys {
			out[k] = m[k]
		}
	}
	return out
}

// shape replaces the values of a document by their types; of a list only the first
// element counts.
func shape(body any) any {
	switch v := body.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, one := range v {
			out[k] = shape(one)
		}
		return out
	case []any:
		if len(v) == 0 {
			return []any{}
		}
		return []any{shape(v[0])}
	}
	return fmt.Sprintf("%T", body)
}

// apiRequests reads requests from a file: a line each, with the method, the path and the
// parameters, "~" and how loosely before them. @0 to @100 are times of the data. POST? has
// its parameters in the URL.
func apiRequests(t *testing.T, file string, data *Dataset) (out []apiRequest) {
	t.Helper()
	b, err := testdata.ReadFile("testdata/" + file)
	if err != nil {
		t.Fatal(err)
	}
	for lines := bufio.NewScanner(bytes.NewReader(b)); lines.Scan(); {
		text := strings.TrimSpace(lines.Text())
		if text == "" || strings.HasPrefix(text, "#") {
			continue
		}
		fields := strings.Fields(text)
		one := apiRequest{params: url.Values{}}
		if strings.HasPrefix(fields[0], "~") {
			one.loose, fields = fields[0][1:], fields[1:]
		}
		one.path = "/api/v1/" + fields[1]
		one.method, one.inURL = strings.CutSuffix(fields[0], "?")
		for _, pair := range fields[2:] {
			k, v, _ := strings.Cut(pair, "=")
			if at, ok := strings.CutPrefix(v, "@"); ok && k != "query" {
				percent, err := strconv.ParseInt(at, 10, 64)
				if err != nil {
					t.Fatalf("%s: %v", text, err)
				}
				ms := (data.Start + (data.End-data.Start)*percent/100) / 1000 * 1000
				v = strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)
			}
			one.params.Add(k, strings.ReplaceAll(v, "␣", " "))
		}
		out = append(out, one)
	}
	return out
}

// TestAPI sends the same requests to the server and to the code of Prometheus' own
// HTTP API over the same data.
func TestAPI(t *testing.T) {
	seed := testseed.Of(t)
	r := rand.New(rand.NewPCG(seed, 100))
	data := NewDataset(r, *withNatives)
	for _, s := range data.Series {
		for i := range s.Samples {
			s.Samples[i].Value += 0 // no -0: see remoteWrite
		}
	}
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
	remoteWrite(t, server.URL+"/api/v1/prom/write?db=p", data)
	bases := []string{server.URL + "/prometheus/p", want.URL}
	for _, file := range []string{"api.txt", "grafana.txt", "perses.txt", "tools.txt"} {
		t.Run(file, func(t *testing.T) {
			passed, failed := 0, 0
			for _, req := range apiRequests(t, file, data) {
				var answers [2]apiAnswer
				for i, base := range bases {
					if answers[i], err = req.send(base); err != nil {
						t.Fatal(err)
					}
				}
				if d := req.differs(answers[0], answers[1]); d != "" {
					t.Errorf("%s: %s", req, d)
					failed++
				} else {
					passed++
				}
			}
			t.Logf("%d requests answered as Prometheus does, %d not", passed, failed)
		})
	}
	t.Run("health", func(t *testing.T) {
		for _, path := range []string{"/-/healthy", "/-/ready"} {
			resp, err := http.Get(bases[0] + path)
			if err != nil {
				t.Fatal(err)
			}
			_ = resp.Body.Close()
			if resp.StatusCode != http.StatusOK {
				t.Errorf("%s: %d", path, resp.StatusCode)
			}
		}
	})
	t.Run("random", func(t *testing.T) {
		expressions := NewExpressions(r, data, asked)
		passed := 0
		for range 200 {
			q := data.question(r, expressions.Next())
			req := apiRequest{method: http.MethodGet, path: "/api/v1/query", params: url.Values{"query": {q.Expr}, "time": {strconv.FormatFloat(float64(q.End)/1000, 'f', 3, 64)}}}
			if q.Step > 0 {
				req.path, req.method = "/api/v1/query_range", http.MethodPost
				req.params = url.Values{
					"query": {q.Expr}, "step": {strconv.FormatFloat(float64(q.Step)/1000, 'f', 3, 64)},
					"start": {strconv.FormatFloat(float64(q.Start)/1000, 'f', 3, 64)}, "end": {strconv.FormatFloat(float64(q.End)/1000, 'f', 3, 64)},
				}
			}
			if (q.End-q.Start)/max(q.Step, 1) > 11_000 && q.Step > 0 {
				continue
			}
			got, err := req.send(bases[0])
			if err != nil {
				t.Fatal(err)
			}
			d := ""
			for range 5 { // some answers of Prometheus differ each time
				want, err := req.send(bases[1])
				if err != nil {
					t.Fatal(err)
				}
				if d = req.differs(got, want); d == "" {
					break
				}
			}
			if d != "" {
				t.Errorf("%s: %s", req, d)
				continue
			}
			passed++
		}
		t.Logf("%d answered as Prometheus does", passed)
	})
}
