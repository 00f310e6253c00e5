package tsm1

import (
	"bytes"
	"testing"

	"tsdbd/model"
)

// TestName finds canonical keys, and why others cannot be stored.
func TestName(t *testing.T) {
	f := func(raw, key string) {
		t.Helper()
		var n namer
		if got := n.name([]byte(raw)); string(got.key) != key || got.reason != "" {
			t.Errorf("%q: %q %s, want %q", raw, got.key, got.reason, key)
		}
	}
	refused := func(raw string) {
		t.Helper()
		var n namer
		if got := n.name([]byte(raw)); string(got.key) != raw || got.reason == "" {
			t.Errorf("%q: %q %s", raw, got.key, got.reason)
		}
	}
	for _, n := range spellings {
		f(n.raw, n.key)
	}
	f("m=a", "m=a")
	f("m=a,b=c", "m=a,b=c")
	f("m,b=1,a=2", "m,a=2,b=1")
	f(`m,a=x\,y,b=z`, `m,a=x\,y,b=z`)
	f(`m\,n\=o`, `m\,n=o`)
	f(`m,a=b\c`, `m,a=b\c`)
	f(",a=b", `\,a=b`)
	f("m,,a=b", `m,\,a=b`)
	f("a b,c=d e", `a\ b,c=d\ e`)
	f("m,a=\x7f,b=\t", "m,a=\x7f,b=\t")
	f("m\r,\xff\xfe=a", "m\r,\xff\xfe=a")
	for _, raw := range []string{
		"", "#m", "m,", "m,a", "m,a=", "m,=b", "m,a=b,", "m,a=b,a=c", "m,time=1", "m,a=1,time=2", "m\n", "\tm", `m\`, `m,a=b\`,
	} {
		refused(raw)
	}
}

// FuzzName: a key that can be stored is canonical, and a plain key is its own.
func FuzzName(f *testing.F) {
	for _, n := range spellings {
		f.Add([]byte(n.raw))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		var n namer
		got := n.name(bytes.Clone(raw))
		if got.reason != "" {
			return
		}
		measurement, tags := model.ParseSeriesKey(string(got.key), nil)
		if reason := model.Unstorable(measurement, tags); reason != "" {
			t.Fatalf("%q as %q: %s", raw, got.key, reason)
		}
		if again := model.AppendSeriesKey(nil, measurement, tags); !bytes.Equal(again, got.key) {
			t.Fatalf("%q as %q, which is %q", raw, got.key, again)
		}
		if !plain(raw) {
			return
		}
		measurement, tags = n.parse(string(raw))
		if key := model.AppendSeriesKey(nil, measurement, tags); !bytes.Equal(key, raw) {
			t.Fatalf("%q is plain, and its key is %q", raw, key)
		}
	})
}
