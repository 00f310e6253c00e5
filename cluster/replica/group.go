package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
)

// A group is the data of one entry of raft's log (uv = unsigned varint):
//
//	version u8 | kind u8 | term uv | number uv | body
//
// term is the term of the epoch that proposed the group, number counts the groups of a
// process. The body of kind 1 is
//
//	records uv, per record: length u32, bytes
//
// with the records of package entry, of sequence 0. The body of kind 2, a mark, is its
// id.
const (
	groupVersion = 1
	groupEntries = 1
	groupMark    = 2
)

// header is what a group begins with.
type header struct {
	kind         byte
	term, number uint64
}

func appendHeader(dst []byte, h header) []byte {
	dst = append(dst, groupVersion, h.kind)
	dst = binary.AppendUvarint(dst, h.term)
	return binary.AppendUvarint(dst, h.number)
}

// countEntries returns how many sequences an entry of raft's log takes.
func countEntries(l *raft.Log) uint64 {
	if l.Type != raft.LogCommand {
		return 0
	}
	h, body, err := parseGroup(l.Data)
	if err != nil || h.term != l.Term || h.kind != groupEntries {
		return 0
	}
	d := binio.NewDecoder(body)
	return uint64(d.Count(4))
}

// parseGroup returns the header of a group and its body.
func parseGroup(b []byte) (header, []byte, error) {
	d := binio.NewDecoder(b)
	version := d.Byte()
	if d.Err() == nil && version != groupVersion {
		return header{}, nil, fmt.Errorf("its version %d is not known, this program knows %d: another node runs a newer one", version, groupVersion)
	}
	h := header{kind: d.Byte(), term: d.Uvarint(), number: d.Uvarint()}
	if err := d.Err(); err != nil {
		return header{}, nil, err
	}
	if h.kind != groupEntries && h.kind != groupMark {
		return header{}, nil, fmt.Errorf("its kind %d is not known: another node runs a newer program", h.kind)
	}
	return h, b[d.Offset():], nil
}
