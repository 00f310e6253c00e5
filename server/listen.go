package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io/fs"
	"log/slog"
	"math"
	"net"

	"tsdbd/config"
	"tsdbd/httpapi"
)

// loadCertificate reads the server's certificate, nil if connections are plain.
func loadCertificate(c *config.Config) (*httpapi.Certificate, error) {
	if !c.HTTP.HTTPSEnabled {
		return nil, nil
	}
	return httpapi.LoadCertificate(c.HTTP.HTTPSCertificate, c.HTTP.HTTPSPrivateKey)
}

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

// listen opens the address and, if it is wanted, the unix socket.
func listen(c *config.Config, h *httpapi.Handler, certificate *httpapi.Certificate, base *tls.Config, log *slog.Logger) ([]*httpapi.Server, error) {
	var encrypted *tls.Config
	if certificate != nil {
		encrypted = certificate.TLSConfig(base)
	}
	limit := connectionLimit(c, openFileLimit())
	server, err := httpapi.Listen(h, httpapi.ServerOptions{
		Address: c.HTTP.BindAddress, MaxConnections: limit, TLS: encrypted, Logger: log,
	})
	if err != nil {
		return nil, err
	}
	if !c.HTTP.UnixSocketEnabled {
		return []*httpapi.Server{server}, nil
	}
	socket, err := httpapi.Listen(h, httpapi.ServerOptions{
		Socket: c.HTTP.BindSocket, SocketMode: fs.FileMode(c.HTTP.UnixSocketPermissions),
		MaxConnections: limit, Logger: log,
	})
	if err != nil {
		return nil, errors.Join(err, server.Close(context.Background()))
	}
	log.Info("serving", "path", c.HTTP.BindSocket)
	return []*httpapi.Server{server, socket}, nil
}

// closeAll closes the servers together: they share the time of ctx.
func closeAll(ctx context.Context, servers []*httpapi.Server) error {
	failures := make(chan error, len(servers))
	for _, s := range servers {
		go func() { failures <- s.Close(ctx) }()
	}
	var all []error
	for range servers {
		all = append(all, <-failures)
	}
	return errors.Join(all...)
}

// urlOf returns where clients find an address that is listened on.
func urlOf(c *config.Config, address string) string {
	if c.HTTP.HTTPSEnabled {
		return "https://" + address
	}
	return "http://" + address
}

// minSecretBytes is what an HMAC key of SHA-256 should have.
const minSecretBytes = 32

// warnOfOpenDoors tells of settings that an operator would not want on a
// network others are on.
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
