package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/testkit/apptest"
	"tsdbd/internal/vfs"
)

func TestAdvice(t *testing.T) {
	f := func(err error, want string) {
		t.Helper()
		if err == nil {
			t.Fatal("no error to give advice on")
		}
		if got := advice(fmt.Errorf("open store: %w", err)); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%v: %q, want %s", err, got, want)
		}
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	_, err = net.Listen("tcp", address)
	f(err, "choose another address")
	l.Close()
	_, err = net.Dial("tcp", address)
	f(err, "no server listens there")
	_, err = net.Listen("tcp", "192.0.2.1:0")
	f(err, "no such address")
	f(&net.OpError{Op: "listen", Err: os.NewSyscallError("bind", syscall.EACCES)}, "ports below 1024")
	f(&net.OpError{Op: "listen", Err: &net.DNSError{}}, "no such address")
	f(&net.OpError{Op: "dial", Err: &net.DNSError{}}, "name the address of the server")
	f(&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, "SSL_CERT_FILE")

	name := filepath.Join(t.TempDir(), "LOCK")
	held, err := vfs.OS.Lock(name)
	if err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	_, err = vfs.OS.Lock(name)
	f(err, "another tsdbd runs on this directory")
	f(inspect.ErrInUse, "stop the server")
	f(&fs.PathError{Op: "mkdir", Path: "x", Err: syscall.EACCES}, "chown")
	f(&fs.PathError{Op: "write", Path: "x", Err: syscall.ENOSPC}, "make room")
	f(&fs.PathError{Op: "write", Path: "x", Err: syscall.EDQUOT}, "make room")
	f(&fs.PathError{Op: "open", Path: "x", Err: syscall.EROFS}, "read-only")

	f(&exchange.WriteError{Status: 401, Message: "authorization failed"}, "TSDBD_PASSWORD")
	f(&exchange.WriteError{Status: 404, Message: `database not found: "x"`}, "CREATE DATABASE")
	f(&exchange.WriteError{Status: 400, Message: "Client sent an HTTP request to an HTTPS server."}, "https://")
	f(&url.Error{Err: http.ErrSchemeMismatch}, "http://")
	f(&exchange.WriteError{Status: 500, Message: "internal error"}, "")
	f(os.ErrNotExist, "")
}

// TestAdviceOfThePrograms looks at what operators see.
func TestAdviceOfThePrograms(t *testing.T) {
	dir := t.TempDir()
	s := apptest.StartOn(t, dir)
	_, port, _ := strings.Cut(s.URL, "//")
	for args, want := range map[string]string{
		"-http " + port:                       "bind: address already in use\nhint: another program has this address",
		"-data " + dir:                        "in use by another process\nhint: another tsdbd runs on this directory",
		"-http foo":                           `http.bind-address must be HOST:PORT such as 127.0.0.1:8086, or :8086 for all addresses, not "foo"`,
		"-http 127.0.0.1:99999":               "has no port from 0 to 65535",
		"-log-level loud":                     `-log-level: "loud" is not debug, info, warn or error`,
		"-data=":                              "-data is empty",
		"-port 8087":                          "-port, did you mean -http?",
		"--web.listen-address=127.0.0.1:9090": "-web.listen-address, did you mean -http?",
		"--storage.tsdb.path x":               "-storage.tsdb.path, did you mean -data?",
		"-config.file x":                      "-config.file, did you mean -config?",
	} {
		if said := apptest.Refusal(t, strings.Fields(args)...); !strings.Contains(said, want) {
			t.Errorf("%s: %s, want %s", args, said, want)
		}
	}
	s.Stop()
	points := apptest.TempFile(t, "m v=1 1")
	for args, want := range map[string]string{
		"run":                             `unknown command "run", did you mean tsdbd serve?`,
		"verfy x":                         `unknown command "verfy", did you mean tsdbd verify?`,
		"export -database x":              "-database, did you mean -db?",
		"export -port 8086":               "-port, did you mean -host?",
		"help xyzzyxyzzy":                 `unknown command "xyzzyxyzzy"`,
		"import -precision foo " + points: "-precision is one of ns, us, ms, s, m and h",
		"import -host " + port + " -db x " + points: "connection refused",
		"backup -prune 0 " + dir:                    "-prune keeps one backup at least",
		"backup -list " + t.TempDir():               "there is no backup in it",
	} {
		if _, _, err := tsdbd(t, strings.Fields(args)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", args, err, want)
		}
	}
}
