package httpapi_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/prom/otlp"
)

// otlpGauges is a request in JSON with a gauge m of one data point for each value.
func otlpGauges(values ...string) string {
	var points []string
	for i, v := range values {
		points = append(points, fmt.Sprintf(`{"timeUnixNano":"%d","attributes":[{"key":"n","value":{"intValue":%d}}],%s}`, int64(i+1)*1e9, i, v))
	}
	return `{"resourceMetrics":[{"scopeMetrics":[{"metrics":[{"name":"m","description":"Help.","gauge":{"dataPoints":[` + strings.Join(points, ",") + `]}}]}]}]}`
}

func TestOTLP(t *testing.T) {
	users, _, opt := withUsers(t)
	opt.Limits.MaxBodySize, opt.Limits.MaxBodyMemory = 100_000, 200_000
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, opt)
	f := func(path, body string, status int, want string, header ...string) answer {
		t.Helper()
		header = append([]string{"Content-Type", "application/json"}, header...)
		a := do(t, "POST", base+path, body, header...)
		if a.status != status || a.body != want {
			t.Errorf("%s %.300s: %d %q, want %d %q", path, body, a.status, a.body, status, want)
		}
		if retry := a.header.Get("Retry-After"); (retry != "") != (status == 503) {
			t.Errorf("%s: %d with Retry-After %q", path, status, retry)
		}
		return a
	}
	const ann, root = "u=ann&p=annpw", "u=root&p=rootpw"
	one := otlpGauges(`"asInt":5`)
	a := f("/api/v1/otlp/v1/metrics?db=db&"+ann, one, 200, "{}")
	if media := a.header.Get("Content-Type"); media != "application/json" {
		t.Errorf("an answer of %s", media)
	}
	stored := func(want ...string) {
		t.Helper()
		got := store.fingerprint()
		for _, s := range want {
			if !strings.Contains(got, s) {
				t.Errorf("stored %s, want %s", got, s)
			}
		}
	}
	stored("m,__name__=m,n=0 value 1000000000", "__metadata__,metric=m type")
	message, err := otlp.FromJSON(nil, []byte(otlpGauges(`"asInt":5`, `"asInt":6`)), func(int) error { return nil })
	if err != nil {
		t.Fatal(err)
	}
	a = f("/v1/metrics?db=db&"+ann, string(message), 200, "", "Content-Type", "application/x-protobuf")
	if media := a.header.Get("Content-Type"); media != "application/x-protobuf" {
		t.Errorf("an answer of %s", media)
	}
	stored("m,__name__=m,n=1 value 2000000000")
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = z.Write([]byte(otlpGauges(`"asInt":5`, `"asInt":6`, `"asInt":7`)))
	_ = z.Close()
	f("/opentelemetry/v1/metrics?db=db&"+ann, packed.String(), 200, "{}", "Content-Encoding", "gzip", "Content-Type", "application/json; charset=utf-8")
	stored("m,__name__=m,n=2 value 3000000000")
	f("/prometheus/db/autogen/api/v1/otlp/v1/metrics?"+ann, otlpGauges("\"asInt\":1", "\"asInt\":1", "\"asInt\":1", "\"asInt\":1"), 200, "{}")
	stored("m,__name__=m,n=3 value 4000000000")
	f("/v1/metrics?db=db&"+ann, "{}", 200, "{}")
	f("/v1/metrics?db=db&"+ann, "", 200, "", "Content-Type", "application/x-protobuf")

	// Good data points are stored, bad ones are told.
	f("/v1/metrics?db=db&"+ann, strings.ReplaceAll(otlpGauges(`"asInt":1`, `"flags":0`), "\"m\"", "\"part\""), 200,
		`{"partialSuccess":{"rejectedDataPoints":"1","errorMessage":"metric \"part\": data point without a value"}}`)
	stored("part,__name__=part,n=0 value 1000000000")
	a = f("/v1/metrics?db=db&"+ann, otlpGauges(`"flags":0`), 200, `{"partialSuccess":{"rejectedDataPoints":"1","errorMessage":"metric \"m\": data point without a value"}}`)
	if dropped := a.header.Get("X-Tsdbd-Dropped"); dropped != "1" {
		t.Errorf("dropped %q", dropped)
	}
	store.databases["db"].types["conflict\x00value"] = model.Integer
	conflict := strings.ReplaceAll(otlpGauges(`"asInt":1`, `"flags":0`), "\"m\"", "\"conflict\"")
	f("/v1/metrics?db=db&"+ann, conflict, 200, `{"partialSuccess":{"rejectedDataPoints":"2","errorMessage":"metric \"conflict\": data point without a value; `+
		`1 samples: field type conflict: input field \"value\" on measurement \"conflict\" is type float, already exists as type integer"}}`)

	// The default database is created by who may.
	f("/v1/metrics?"+ann, one, 403, `{"code":7,"message":"\"ann\" user is not authorized to write to database \"prometheus\""}`)
	if store.databases["prometheus"] != nil {
		t.Error("a user without rights has created a database")
	}
	f("/v1/metrics?"+root, one, 200, "{}")
	if store.databases["prometheus"] == nil {
		t.Error("the default database was not created")
	}
	users.apply(t, meta.CreateDatabase{Name: "prometheus"})

	// What must not be sent again.
	f("/v1/metrics?db=nosuch&"+root, one, 404, `{"code":5,"message":"database not found: \"nosuch\""}`)
	f("/v1/metrics?db=db&rp=nosuch&"+ann, one, 404, `{"code":5,"message":"retention policy not found: nosuch"}`)
	f("/v1/metrics?db=db", one, 401, `{"code":16,"message":"unable to parse authentication credentials"}`)
	f("/v1/metrics?db=db&"+ann, "", 400, `{"code":3,"message":"JSON at byte 0: unexpected end of JSON input"}`)
	f("/v1/metrics?db=db&"+ann, "\x08\x01", 400, "\x08\x03\x12\x4f"+"protobuf: ExportMetricsServiceRequest: field 1 is truncated or has a wrong type", "Content-Type", "application/x-protobuf")
	f("/v1/metrics?db=db&translation_strategy=x&"+ann, one, 400, `{"code":3,"message":"unknown translation_strategy \"x\""}`)
	f("/v1/metrics?db=db&"+ann, one, 415, `{"code":3,"message":"the Content-Type of metrics is application/x-protobuf or application/json"}`, "Content-Type", "text/plain")
	f("/v1/metrics?db=db&"+ann, one, 415, `{"code":3,"message":"Content-Encoding \"zstd\" is not supported, send gzip or none"}`, "Content-Encoding", "zstd")
	f("/v1/metrics?db=db&"+ann, one, 400, `{"code":3,"message":"gzip: invalid header"}`, "Content-Encoding", "gzip")
	f("/v1/metrics?db=db&"+ann, strings.Repeat(" ", 100_001), 413, `{"code":8,"message":"Request Entity Too Large"}`)
	// A small request that would be large in memory.
	long := strings.Repeat("x", 20_000)
	wide := strings.ReplaceAll(otlpGauges(strings.Split(strings.Repeat(`"asInt":1 `, 100), " ")[:100]...), `[{"scopeMetrics"`, `[{"resource":{"attributes":[{"key":"service.name","value":{"stringValue":"`+long+`"}}]},"scopeMetrics"`)
	f("/v1/metrics?db=db&"+ann, wide, 413, `{"code":8,"message":"Request Entity Too Large"}`)

	// What must be sent again.
	store.writeErr = temporary{}
	f("/v1/metrics?db=db&"+ann, one, 503, `{"code":14,"message":"come later"}`)
	store.writeErr = errors.New("input/output error")
	f("/v1/metrics?db=db&"+ann, one, 503, `{"code":14,"message":"input/output error"}`)
	store.writeErr = nil
	if got := do(t, "GET", base+"/v1/metrics?"+ann, ""); got.status != 405 {
		t.Errorf("GET: %d", got.status)
	}
}
