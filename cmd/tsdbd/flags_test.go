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

// TestOneAddress: commands that ask one server say so if they get a list of servers, or nothing.
func TestOneAddress(t *testing.T) {
	t.Chdir(t.TempDir())
	f := func(want, line string) {
		t.Helper()
		if _, _, err := tsdbd(t, strings.Fields(line)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("tsdbd %s: %v, want %q", line, err, want)
		}
	}
	const list, empty = "takes one address, not a list", "the address of the server is empty"
	for _, line := range []string{"query Q", "health", "import csv -db d f.csv", "backup place", "cold sweep"} {
		f(list, line+" -host https://a:1,https://b:1")
		f(empty, line+" -host=")
		t.Setenv("TSDBD_HOST", "a:1,b:1")
		f(list, line)
		if err := os.Unsetenv("TSDBD_HOST"); err != nil {
			t.Fatal(err)
		}
	}
	for _, line := range []string{"restore place", "export", "verify"} {
		f(list, line+" -host a:1,b:1")
	}
	f(empty, "cluster status -host=")
	f(empty, "cluster status -host a:1,,b:1")
	f("connection refused", "cluster status -host 127.0.0.1:1,127.0.0.1:2")
}
