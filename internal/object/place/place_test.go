package place

import (
	"path/filepath"
	"testing"
)

func TestParse(t *testing.T) {
	here, err := filepath.Abs("x")
	if err != nil {
		t.Fatal(err)
	}
	f := func(text, want string) {
		t.Helper()
		p, err := Parse(text)
		if err != nil || p.String() != want {
			t.Errorf("%s: %s, %v; want %s", text, p, err, want)
		}
	}
	f("x", filepath.ToSlash(here))
	f("s3://bucket/a/b/", "s3://bucket/a/b")
	f("s3://bucket", "s3://bucket")
	for _, text := range []string{"file://host/a", "file://", "s3://bucket/a/../b", "s3://u:p@bucket", "s3://bucket?x=1", "gs://bucket/a"} {
		if p, err := Parse(text); err == nil {
			t.Errorf("%s is taken for %s", text, p)
		}
	}
}
