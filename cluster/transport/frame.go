package transport

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode"
)

// A frame of the handshake:
//
//	| magic "tsdb" | version u8 | type u8 | length u16 | payload |
//
// The layout of the header is the same in every version.
const (
	frameMagic   = "tsdb"
	frameVersion = 1
	headerSize   = 8
	maxPayload   = 4096
	maxReason    = 1024 // bytes of the text of a refusal
)

// frameType says what the payload of a frame is.
type frameType byte

const (
	proofFrame   frameType = 1 // the MAC of the secret
	helloFrame   frameType = 2 // an encoded Hello
	acceptFrame  frameType = 3 // nothing: the Hello of the peer is accepted
	refusalFrame frameType = 4 // text: why not
)

// errNoNode is the error of a connection whose first bytes no node sends.
var errNoNode = errors.New("the peer does not speak the protocol of tsdbd nodes")

// appendFrame appends a frame to dst. The payload must not be longer than maxPayload.
func appendFrame(dst []byte, t frameType, payload []byte) []byte {
	dst = append(dst, frameMagic...)
	dst = append(dst, frameVersion, byte(t))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(payload)))
	return append(dst, payload...)
}

// readFrame reads one frame and no byte more.
func readFrame(r io.Reader) (frameType, []byte, error) {
	var header [headerSize]byte
	if _, err := io.ReadFull(r, header[:]); err != nil {
		return 0, nil, err
	}
	if string(header[:4]) != frameMagic {
		return 0, nil, errNoNode
	}
	if header[4] != frameVersion {
		return 0, nil, &Refusal{Reason: fmt.Sprintf("frames of version %d instead of %d: one of the nodes runs a newer tsdbd; use that version or newer on the other", header[4], frameVersion)}
	}
	t, n := frameType(header[5]), int(binary.LittleEndian.Uint16(header[6:]))
	if t < proofFrame || t > refusalFrame {
		return 0, nil, fmt.Errorf("%w: frame of unknown type %d", errNoNode, t)
	}
	if n > maxPayload {
		return 0, nil, fmt.Errorf("%w: frame of %d bytes, at most %d", errNoNode, n, maxPayload)
	}
	payload := make([]byte, n)
	if _, err := io.ReadFull(r, payload); err != nil {
		return 0, nil, err
	}
	return t, payload, nil
}

// expectFrame reads a frame of type want and returns its payload. A refusal in its
// place is returned as *Refusal.
func expectFrame(r io.Reader, want frameType) ([]byte, error) {
	t, payload, err := readFrame(r)
	switch {
	case err != nil:
		return nil, err
	case t == want:
		return payload, nil
	case t == refusalFrame:
		return nil, &Refusal{Reason: printable(string(payload)), ByPeer: true}
	}
	return nil, fmt.Errorf("%w: frame of type %d, not %d", errNoNode, t, want)
}

// printable makes text of a peer fit for logs and status: valid, without control
// characters, not too long.
func printable(s string) string {
	s = strings.Map(func(r rune) rune {
		if !unicode.IsPrint(r) {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > maxReason {
		s = strings.ToValidUTF8(s[:maxReason], "")
	}
	if s == "" {
		return "no reason given"
	}
	return s
}
