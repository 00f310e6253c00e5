package server

import (
	"crypto/tls"
	"io/fs"
	"log/slog"
	"math"
	"net"

	"tsdbd/config"
	"tsdbd/httpapi/listener"
)

// connectionShare is the part of the files a process may open that connections
// may take. The rest is for data files and the catalog.
const connectionShare = 0.75

// connectionLimit returns how many connections each listener accepts at a time,
// 0 for no limit. files is how many files the process may open, 0 if that is
// not known.
func connectionLimit(c *config.Config, files uint64) int {
	if c.HTTP.MaxConnectionLimit > 0 {
		return c.HTTP.MaxConnectionLimit
	}
	if files == 0 || files > math.MaxInt32 {
		return 0
	}
	limit := float64(files) * connectionShare
	if c.HTTP.UnixSocketEnabled {
		limit /= 2
	}
	return max(1, int(limit))
}

// tryListen returns the error that listen would meet, before the log is read
// back, which may take long.
func tryListen(c *config.Config) error {
	l, err := net.Listen("tcp", c.HTTP.BindAddress)
	if err != nil {
		return err
	}
	return l.Close()
}

// listenerOptions returns the address and, if it is on, the unix socket.
// encrypted is nil if connections to the address are plain.
func listenerOptions(c *config.Config, encrypted *tls.Config) []listener.Options {
	limit := connectionLimit(c, openFileLimit())
	all := []listener.Options{{Address: c.HTTP.BindAddress, MaxConnections: limit, TLS: encrypted}}
	if c.HTTP.UnixSocketEnabled {
		all = append(all, listener.Options{
			Socket: c.HTTP.BindSocket, SocketMode: fs.FileMode(c.HTTP.UnixSocketPermissions), MaxConnections: limit,
		})
	}
	return all
}

// minSecretBytes is what an HMAC key of SHA-256 should have.
const minSecretBytes = 32

// warnOfOpenDoors logs settings that are unsafe on a network with others, and
// settings without effect.
func warnOfOpenDoors(c *config.Config, log *slog.Logger) {
	local := isLocal(c.HTTP.BindAddress)
	if !c.HTTP.AuthEnabled && !local {
		log.Warn("anyone who reaches the address may read and write: set http.auth-enabled", "address", c.HTTP.BindAddress)
	}
	for _, in := range c.Inputs() {
		if in.Enabled && c.HTTP.AuthEnabled && !isLocal(in.BindAddress) {
			log.Warn("an input takes no logins: anyone who reaches the address may write", "address", in.BindAddress)
		}
	}
	if c.HTTP.AuthEnabled && !c.HTTP.HTTPSEnabled && !local {
		log.Warn("passwords cross the network unencrypted: set http.https-enabled", "address", c.HTTP.BindAddress)
	}
	if !c.HTTP.UnixSocketEnabled && c.HTTP.BindSocket != config.Default().HTTP.BindSocket {
		log.Warn("http.bind-socket has no effect without http.unix-socket-enabled", "path", c.HTTP.BindSocket)
	}
	if n := len(c.HTTP.SharedSecret.Reveal()); n > 0 && n < minSecretBytes {
		log.Warn("http.shared-secret is short enough to be guessed", "bytes", n)
	}
	if c.HTTP.SharedSecret.Reveal() != "" && !c.HTTP.AuthEnabled {
		log.Warn("http.shared-secret has no effect without http.auth-enabled")
	}
}

// isLocal reports whether only this machine reaches an address.
func isLocal(address string) bool {
	host, _, err := net.SplitHostPort(address)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}
