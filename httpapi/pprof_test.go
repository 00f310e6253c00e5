package httpapi_test

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"

	"tsdbd/httpapi"
)

func TestProfilesInOne(t *testing.T) {
	_, base := start(t, newFakeStore(), httpapi.Options{Pprof: true})
	for _, bad := range []string{"cpu=x", "cpu=-1s", "trace=11m"} {
		if a := do(t, "GET", base+"/debug/pprof/all?"+bad, ""); a.status != 400 {
			t.Errorf("%s: %d %s", bad, a.status, a.body)
		}
	}
	a := do(t, "GET", base+"/debug/pprof/all?cpu=1ms&trace=1ms", "")
	if a.status != 200 || a.header.Get("Content-Type") != "application/gzip" {
		t.Fatalf("%d %s %v", a.status, a.body, a.header)
	}
	z, err := gzip.NewReader(strings.NewReader(a.body))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for r := tar.NewReader(z); ; {
		f, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if f.Size > 0 {
			names = append(names, f.Name)
		}
	}
	for _, want := range []string{"cpu.pb.gz", "trace.out", "heap.pb.gz", "goroutine.pb.gz", "mutex.pb.gz", "block.pb.gz"} {
		if !slices.Contains(names, want) {
			t.Errorf("no %s in %v", want, names)
		}
	}
}
