package main

import (
	"os"
	"strings"
	"testing"
)

// TestURLs refuses a URL wherever a command takes a path of a backup or an export, and makes
// nothing.
func TestURLs(t *testing.T) {
	t.Chdir(t.TempDir())
	const url = "s3://bucket/x"
	for _, args := range []string{
		"backup " + url, "backup -list " + url, "backup -prune 1 " + url, "verify -backup " + url, "verify " + url,
		"restore -data d " + url, "restore -data " + url + " /backups", "restore -host http://127.0.0.1:1 " + url,
		"export -backup " + url, "export -data " + url, "export -data . -format parquet -out " + url, "export -data . -format csv -out gs://b/x", "export -data . -out file:///x",
		"import influxdb -data " + url + " .",
	} {
		_, _, err := tsdbd(t, strings.Fields(args)...)
		if err == nil || !strings.Contains(err.Error(), "is a URL, and tsdbd reads and writes files only") {
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
