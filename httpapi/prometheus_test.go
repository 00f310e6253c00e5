package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/golang/snappy"
	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/prom"
	"tsdbd/prom/remote"
	"tsdbd/query/result"
)

// member wraps a message as member n of another.
func member(n protowire.Number, b []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, n, protowire.BytesType), b)
}

func TestRemoteWrite(t *testing.T) {
	store := newFakeStore()
	store.create("db")
	_, base := start(t, store, httpapi.Options{})
	series := remote.AppendSample(remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "job", "a"), prom.Sample{Value: 1.5, Time: 1000})
	bad := remote.AppendSample(remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "time", "a"), prom.Sample{Value: 1})
	f := func(params string, message []byte, status int, want string, header ...string) {
		t.Helper()
		a := do(t, "POST", base+"/api/v1/prom/write"+params, string(message), header...)
		if a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %d %s", params, a.status, a.body, status, want)
		}
	}
	f("?db=db", snappy.Encode(nil, member(1, series)), 204, "")
	if got := store.fingerprint(); !strings.Contains(got, "up,__name__=up,job=a value 1000000000") {
		t.Errorf("stored %s", got)
	}
	f("?db=db", snappy.Encode(nil, append(member(1, bad), member(1, series)...)), 400, `partial write: invalid tag key: input tag \"time\" on measurement \"up\" is invalid dropped=1`)
	f("", nil, 400, "database is required")
	f("?db=nosuch", nil, 404, "database not found")
	f("?db=db", []byte("x"), 400, "snappy: corrupt input")
	f("?db=db", snappy.Encode(nil, []byte("\xff\xff")), 400, "proto: cannot parse")
	f("?db=db", nil, 415, "remote write 2.0 is not supported", "Content-Type", "application/x-protobuf;proto=io.prometheus.write.v2.Request")
}

func TestRemoteRead(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.SetPrivilege{Name: "ann", Database: "db", Privilege: meta.ReadPrivilege})
	store := newFakeStore()
	store.create("db")
	samples := func(job string, values ...float64) *result.Series {
		s := &result.Series{Name: "up", Tags: model.Tags{{Key: "job", Value: job}}, Columns: []string{"time", "value"}, Rows: len(values)}
		s.Values = []column.Vector{{Type: model.Integer, Ints: make([]int64, len(values))}, {Type: model.Float, Floats: values}}
		return s
	}
	part := samples("a", 1)
	part.Partial = true
	var failed error
	store.execute = func(_ context.Context, emit func(*result.Result) error) error {
		if err := emit(&result.Result{Series: []*result.Series{part}, Messages: []result.Message{{Level: "warning", Text: "points are missing"}}, Partial: true}); err != nil {
			return err
		}
		return emit(&result.Result{Series: []*result.Series{samples("a", 2), samples("b", 3)}, Err: failed})
	}
	_, base := start(t, store, opt)
	matcher := protowire.AppendString(protowire.AppendTag(nil, 2, protowire.BytesType), "__name__")
	matcher = protowire.AppendString(protowire.AppendTag(matcher, 3, protowire.BytesType), "up")
	ask := member(1, member(3, matcher))
	f := func(params string, message []byte, status int, want string) answer {
		t.Helper()
		a := do(t, "POST", base+"/api/v1/prom/read"+params, string(snappy.Encode(nil, message)), "Accept-Encoding", "gzip")
		if a.status != status || !strings.Contains(a.body, want) {
			t.Errorf("%s: %d %s, want %d %s", params, a.status, a.body, status, want)
		}
		return a
	}
	const ann = "?u=ann&p=annpw&db="
	a := f(ann+"db", ask, 200, "")
	one := func(job string, values ...float64) []byte {
		b := remote.AppendLabel(remote.AppendLabel(nil, "__name__", "up"), "job", job)
		for _, v := range values {
			b = remote.AppendSample(b, prom.Sample{Value: v})
		}
		return member(1, b)
	}
	want := string(member(1, append(one("a", 1, 2), one("b", 3)...)))
	if got, err := snappy.Decode(nil, []byte(a.body)); err != nil || string(got) != want {
		t.Errorf("%v: %q, want %q", err, got, want)
	}
	if a.header.Get("Content-Encoding") != "snappy" || a.header.Get("Content-Type") != "application/x-protobuf" || a.header.Get("X-Influxdb-Warning") != "points are missing" {
		t.Errorf("header %v", a.header)
	}
	if store.options.User != "ann" || store.options.Database != "db" {
		t.Errorf("options %+v", store.options)
	}
	failed = errors.New("disk failed")
	f(ann+"db", ask, 500, "disk failed")
	f(ann+"db", nil, 400, "only supports one query at a time")
	f(ann+"db", []byte("\xff"), 400, "proto: cannot parse")
	f(ann+"db", member(1, member(3, protowire.AppendVarint(protowire.AppendTag(nil, 1, protowire.VarintType), 9))), 400, "unknown match type: 9")
	f(ann+"db&rp=x", ask, 500, "retention policy not found: x")
	f(ann+"other", ask, 403, "not authorized to read from database")
	f("?u=ann&p=annpw", ask, 400, "database is required")
	f("?u=root&p=rootpw&db=nosuch", ask, 404, "database not found")
}
