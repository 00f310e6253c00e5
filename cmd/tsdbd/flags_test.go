package main

import (
	"os"
	"strings"
	"testing"
)

// TestURLs refuses a URL wherever a command takes a path, and makes nothing.
func TestURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "s3://bucket/x"
	for _, args := range []string{
		"verify " + url, "restore -data " + url + " /backups", "export -data " + url, "export -data . -format parquet -out " + url, "export -data . -format csv -out gs://b/x", "export -data . -out file:///x",
		"import influxdb -data " + url + " .",
	} {
		_, _, err := tsdbd(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), "is a URL: name a path of this machine") {
			t.Errorf("tsdbd %s: %v", args, err)
		}
	}
	if made, err := os.ReadDir("."); err != nil || len(made) > 0 {
		t.Errorf("%v was made, %v", made, err)
	}
	for _, path := range []string{"", "-", ".", "a:b", "C:/x", "C://x", "s3:/x", "x/http://y"} {
		if err := noURL(path); err != nil {
			t.Error(err)
		}
	}
}
