package main

import (
	"crypto/x509"
	"errors"
	"io/fs"
	"net"
	"net/http"
	"os/user"
	"strings"

	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/vfs"
	"tsdbd/server"
)

// advice returns what can be done about an error that ends the program, "" where
// the error says it all.
func advice(err error) string {
	var network *net.OpError
	var name *net.DNSError
	var answer *exchange.WriteError
	var old *oldServerError
	var broken *brokenOff
	var certificate x509.UnknownAuthorityError
	listening := errors.As(err, &network) && network.Op == "listen"
	switch {
	case errors.As(err, &broken): // the import has said how to go on
		return ""
	case errors.As(err, &old):
		return old.advice()
	case errors.Is(err, errAddressInUse):
		return "another program has this address, perhaps an InfluxDB or another tsdbd: stop it, or choose another address (-http HOST:PORT for the API)"
	case errors.Is(err, errNoSuchAddress), listening && errors.As(err, &name):
		return "this machine has no such address: 127.0.0.1 is the machine itself, :PORT all its addresses"
	case listening && errors.Is(err, fs.ErrPermission):
		return "ports below 1024 are not for every user: choose a higher one, or give the program CAP_NET_BIND_SERVICE"
	case errors.Is(err, errRefused):
		return "no server listens there: start it, or name its address with -host URL or TSDBD_HOST"
	case errors.As(err, &name):
		return "name the address of the server with -host URL or TSDBD_HOST"
	case errors.As(err, &answer) && answer.Status == 401:
		return "log in with -username, and the password in TSDBD_PASSWORD"
	case errors.As(err, &answer) && answer.Status == 404 && strings.Contains(answer.Message, "database not found"):
		return "SHOW DATABASES lists what there is; to make one: curl -X POST 'http://HOST:PORT/query' --data-urlencode 'q=CREATE DATABASE ...'"
	case errors.As(err, &answer) && strings.Contains(answer.Message, "HTTP request to an HTTPS server"):
		return "the server takes https: -host https://HOST:PORT"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server takes http: -host http://HOST:PORT, without -ssl"
	case errors.As(err, &certificate):
		return "the server's certificate comes from no authority that this machine knows: SSL_CERT_FILE names a file of others"
	case errors.Is(err, inspect.ErrInUse):
		return "stop the server, or use a command that asks it by -host URL"
	case errors.Is(err, inspect.ErrNoData):
		return "name the directory that holds meta, wal, and db-1; a directory of backups takes -backup"
	case errors.Is(err, server.ErrForeignDir):
		return "name a new or empty directory with -data DIR, or a subdirectory of this one"
	case errors.Is(err, vfs.ErrLocked):
		return "another tsdbd runs on this directory: stop it, or name another directory"
	case vfs.IsReadOnly(err):
		return "the file system is mounted read-only: look at the disk, and at what the service may write to"
	case vfs.IsFull(err):
		return "the disk is full: make room"
	case errors.Is(err, fs.ErrPermission):
		who := "the user that runs tsdbd"
		if u, err := user.Current(); err == nil {
			who = "the user " + u.Username
		}
		return who + " may not do that: run as the owner, give it the directory with chown, or name another one"
	}
	return ""
}
