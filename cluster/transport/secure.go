package transport

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/big"
	"net"
	"strings"
	"time"
)

// ALPN names say how nodes authenticate each other, so that nodes that do it in
// different ways find out before anything else.
const (
	alpnPrefix           = "tsdbd-"
	alpnSecret           = alpnPrefix + "secret"
	alpnCertificate      = alpnPrefix + "certificate"
	alpnCertificateAlone = alpnCertificate + "-only"
)

// The TLS alert no_application_protocol, and its text in crypto/tls.
const (
	alertNoProtocol     = 120
	alertNoProtocolText = "no application protocol"
)

// noProtocol is that alert as a TLS record. A node that does not encrypt sends it to
// one that does.
var noProtocol = []byte{21, 3, 3, 0, 2, 2, alertNoProtocol}

// recordHandshake is the first byte of a TLS connection.
const recordHandshake = 22

// Roles in proofs. They differ, so that a proof cannot be sent back to its author.
const (
	dialerRole   = "dialer"
	acceptorRole = "acceptor"
)

// security is how a node encrypts connections and authenticates peers.
type security struct {
	tls      func() *tls.Config // see Options.TLS; nil: plain TCP
	protocol string             // the ALPN name
	key      []byte             // of proofs, nil without a secret
}

// newSecurity prepares what Options say. Check has accepted them.
func newSecurity(o Options) (security, error) {
	var s security
	var err error
	if o.Secret != "" {
		// A peer that a node dials sees a MAC, and could try guesses on it. The many
		// rounds make guesses expensive; they cost this node some 20 ms once.
		if s.key, err = pbkdf2.Key(sha256.New, o.Secret, []byte("tsdbd cluster secret 1"), 100_000, sha256.Size); err != nil {
			return s, err
		}
	}
	switch {
	case o.TLS != nil:
		s.tls, s.protocol = o.TLS, alpnCertificateAlone
		if s.key != nil {
			s.protocol = alpnCertificate
		}
	case s.key != nil:
		certificate, err := ephemeralCertificate()
		if err != nil {
			return s, fmt.Errorf("make a certificate: %w", err)
		}
		// Nobody verifies the certificate; proofs authenticate the connection.
		c := &tls.Config{Certificates: []tls.Certificate{certificate}, InsecureSkipVerify: true}
		s.tls, s.protocol = func() *tls.Config { return c }, alpnSecret
	}
	return s, nil
}

// config returns the configuration of a new connection.
func (s security) config() *tls.Config {
	c := s.tls().Clone()
	c.NextProtos = []string{s.protocol}
	c.MinVersion = tls.VersionTLS13
	c.MaxVersion = 0
	c.SessionTicketsDisabled = true
	c.DynamicRecordSizingDisabled = true
	if s.protocol != alpnSecret {
		c.ClientAuth, c.ClientCAs = tls.RequireAndVerifyClientCert, c.RootCAs
		// The certificate is shown to peers with other authorities too: they say then
		// that they do not accept it.
		c.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return &c.Certificates[0], nil }
	}
	return c
}

// ephemeralCertificate returns a certificate for a key that only this process has.
func ephemeralCertificate() (tls.Certificate, error) {
	_, key, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		return tls.Certificate{}, err
	}
	template := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Date(9999, 12, 31, 0, 0, 0, 0, time.UTC)}
	der, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, nil
}

// proof returns the MAC by which one side of a connection shows that it knows the
// secret. The keying material is known to the two ends of this connection only.
func (s security) proof(c *tls.Conn, role string) ([]byte, error) {
	state := c.ConnectionState()
	material, err := state.ExportKeyingMaterial("EXPORTER-tsdbd-cluster", nil, sha256.Size)
	if err != nil {
		return nil, fmt.Errorf("keying material: %w", err)
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(role))
	mac.Write(material)
	return mac.Sum(nil), nil
}

// proves reports whether a peer in a role sent the right proof.
func (s security) proves(c *tls.Conn, role string, got []byte) (bool, error) {
	want, err := s.proof(c, role)
	return err == nil && hmac.Equal(got, want), err
}

// client returns the configuration for a connection to the node at address.
func (s security) client(address string) *tls.Config {
	c := s.config()
	if c.ServerName == "" {
		c.ServerName, _, _ = net.SplitHostPort(address)
	}
	return c
}

// server returns the configuration for a connection that came in. offered gets the
// ALPN names of the peer.
func (s security) server(offered *[]string) *tls.Config {
	c := s.config()
	c.GetConfigForClient = func(info *tls.ClientHelloInfo) (*tls.Config, error) {
		*offered = info.SupportedProtos
		return nil, nil
	}
	return c
}

// way says how this node authenticates peers.
func (s security) way() string {
	switch {
	case s.tls == nil:
		return "neither a secret nor certificates"
	case s.protocol == alpnSecret:
		return "a secret and no certificates"
	case s.key == nil:
		return "certificates and no secret"
	}
	return "certificates and a secret"
}

// otherWay is the reason to refuse a node that authenticates in another way.
func (s security) otherWay(peer, self string) string {
	return fmt.Sprintf("%s has %s, %s has not the same: give all nodes the same secret, or certificates", self, s.way(), peer)
}

// explainDial turns an error of a handshake with a node that was dialed into a refusal, if the
// peer or this node refuses on purpose.
func (s security) explainDial(err error, peer, self string) error {
	var header tls.RecordHeaderError
	var verification *tls.CertificateVerificationError
	if s.tls == nil || errors.As(err, new(*Refusal)) {
		return err
	}
	switch alert := remoteAlert(err); {
	case alert == alertNoProtocolText:
		return &Refusal{Reason: s.otherWay(peer, self), ByPeer: true}
	case alert != "":
		return rejected(alert, peer, self)
	case errors.As(err, &header):
		return &Refusal{Reason: fmt.Sprintf("%s does not speak TLS: it is not the port of a node, or a node without a secret and certificates", peer)}
	case errors.As(err, &verification):
		return invalidCertificate(peer, verification)
	}
	return err
}

// explainAccept is explainDial for a connection that came in. offered are the ALPN names of
// the peer; nil if they were found right before.
func (s security) explainAccept(err error, offered []string, peer, self string) error {
	var verification *tls.CertificateVerificationError
	if s.tls == nil {
		return err
	}
	alert := remoteAlert(err)
	switch {
	case offered != nil && (len(offered) != 1 || !strings.HasPrefix(offered[0], alpnPrefix)): // no node
	case offered != nil && offered[0] != s.protocol:
		return &Refusal{Reason: s.otherWay(peer, self)}
	case errors.As(err, &verification):
		return invalidCertificate(peer, verification)
	case alert != "":
		return rejected(alert, peer, self)
	}
	return err
}

// remoteAlert returns the text of the TLS alert that a peer sent, or "". Package
// crypto/tls keeps the type of alerts to itself.
func remoteAlert(err error) string {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "remote error" {
		return strings.TrimPrefix(op.Err.Error(), "tls: ")
	}
	return ""
}

func rejected(alert, peer, self string) error {
	reason := fmt.Sprintf("%s does not accept the certificate of %s (%s): check that it is valid, that it names the address, and that both nodes have the same certificate authority", peer, self, alert)
	return &Refusal{Reason: reason, ByPeer: true}
}

func invalidCertificate(peer string, err *tls.CertificateVerificationError) error {
	return &Refusal{Reason: fmt.Sprintf("the certificate of %s is not valid here (%v): check that it names the address and that both nodes have the same certificate authority", peer, err.Err)}
}
