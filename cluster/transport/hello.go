package transport

import (
	"encoding/binary"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"tsdbd/internal/binio"
)

// maxText bounds the texts of a Hello, in bytes.
const maxText = 255

// Hello is what a node says about itself at the start of each connection.
type Hello struct {
	OldestProtocol int // the oldest version of the protocol between nodes that the node speaks; 0: Protocol
	Protocol       int // the newest one; 0: 1

	Version string    // of the program
	Cluster string    // id of the cluster, "" if the node is in none yet
	Name    string    // of the node
	ID      string    // raft server id, "" if the node has none yet
	Address string    // where other nodes reach the node; "": Options.Advertise
	Clock   time.Time // wall clock when the Hello was sent; the transport sets it, and no check uses it

	// Age grows durably at every start of the node and while it runs, 0 if it says none.
	// Process is random. So two copies of one directory cannot say the same.
	Age, Process uint64
}

// String returns name and address, by which an operator knows the node.
func (h Hello) String() string { return fmt.Sprintf("%s (%s)", h.Name, h.Address) }

// protocols returns the versions as text.
func (h Hello) protocols() string {
	if h.OldestProtocol == h.Protocol {
		return fmt.Sprintf("protocol %d", h.Protocol)
	}
	return fmt.Sprintf("protocols %d to %d", h.OldestProtocol, h.Protocol)
}

// appendHello appends the payload of a hello frame to dst:
//
//	| oldest uvarint | newest uvarint | version | cluster | name | id | address | clock varint | age uvarint | process uvarint |
//
// Texts are a uvarint length and bytes, the clock is in nanoseconds since the Unix
// epoch. Older programs end with the clock. Later versions may append fields; readers
// ignore what they do not know.
func appendHello(dst []byte, h Hello) []byte {
	dst = binary.AppendUvarint(dst, uint64(h.OldestProtocol))
	dst = binary.AppendUvarint(dst, uint64(h.Protocol))
	for _, s := range h.texts() {
		dst = binio.AppendString(dst, *s)
	}
	dst = binary.AppendUvarint(dst, binio.ZigZag(h.Clock.UnixNano()))
	dst = binary.AppendUvarint(dst, h.Age)
	return binary.AppendUvarint(dst, h.Process)
}

// decodeHello is the inverse of appendHello.
func decodeHello(b []byte) (Hello, error) {
	var h Hello
	d := binio.NewDecoder(b)
	oldest, newest := d.Uvarint(), d.Uvarint()
	for _, s := range h.texts() {
		*s = d.String()
	}
	h.Clock = time.Unix(0, d.Varint()).UTC()
	if d.Err() == nil && d.Len() > 0 {
		h.Age, h.Process = d.Uvarint(), d.Uvarint()
	}
	if err := d.Err(); err != nil {
		return Hello{}, fmt.Errorf("decode hello: %w", err)
	}
	const maxProtocol = 1 << 30
	if oldest == 0 || newest < oldest || newest > maxProtocol {
		return Hello{}, fmt.Errorf("decode hello: protocols %d to %d", oldest, newest)
	}
	h.OldestProtocol, h.Protocol = int(oldest), int(newest)
	if err := h.valid(); err != nil {
		return Hello{}, fmt.Errorf("decode hello: %w", err)
	}
	return h, nil
}

// texts returns the texts in the order of their encoding.
func (h *Hello) texts() []*string {
	return []*string{&h.Version, &h.Cluster, &h.Name, &h.ID, &h.Address}
}

// valid reports a text that is no text or too long.
func (h Hello) valid() error {
	for _, s := range h.texts() {
		if len(*s) > maxText {
			return fmt.Errorf("text of %d bytes, at most %d", len(*s), maxText)
		}
		if !utf8.ValidString(*s) || strings.ContainsFunc(*s, func(r rune) bool { return !unicode.IsPrint(r) }) {
			return fmt.Errorf("text %q is not printable", *s)
		}
	}
	if h.Name == "" {
		return fmt.Errorf("node without a name")
	}
	return nil
}

// check returns why self refuses a connection with peer, or "".
func check(self, peer Hello) string {
	switch {
	case max(self.OldestProtocol, peer.OldestProtocol) > min(self.Protocol, peer.Protocol):
		return fmt.Sprintf("%s runs tsdbd %s with %s, %s runs %s with %s: upgrade the older node",
			peer, peer.Version, peer.protocols(), self, self.Version, self.protocols())
	case self.Cluster != "" && peer.Cluster != "" && self.Cluster != peer.Cluster:
		return fmt.Sprintf("%s is in cluster %s, %s in cluster %s: remove the address of one from the list of the other (cluster.join); a node becomes a new member if it starts with an empty data directory",
			peer, peer.Cluster, self, self.Cluster)
	case self.Name == peer.Name && (self.ID != peer.ID || self.Address != peer.Address):
		return fmt.Sprintf("two nodes have the name %s: %s with id %q, and %s with id %q: give each node a name of its own (cluster.node), and run one process per data directory",
			self.Name, peer.Address, peer.ID, self.Address, self.ID)
	}
	return ""
}
