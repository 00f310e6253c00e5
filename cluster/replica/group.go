package replica

import (
	"encoding/binary"
	"fmt"

	"github.com/hashicorp/raft"

	"tsdbd/internal/binio"
)

// Format is the newest form of entries of the log that this program reads. Whoever makes a
// newer one raises it, and writes that one where Options.Format allows it. Form 2 differs from
// form 1 in that its entries may have commands of boards.
const Format = 2

// A group is the data of one entry of raft's log (uv = unsigned varint):
//
//	format u8 | kind u8 | term uv | number uv | body
//
// format is that in which the cluster writes its log. term is the term of the epoch that proposed the group, number counts the groups of a
// process. The body of kind 1 is
//
//	records uv, per record: length u32, bytes
//
// with the records of package entry, of sequence 0. The body of kind 2, a mark, is its
// id.
const (
	groupEntries = 1
	groupMark    = 2
)

// groupFormat is the name of the format in errors.
const groupFormat = "entry of the log of a cluster"

// header is what a group begins with.
type header struct {
	format, kind byte
	term, number uint64
}

func appendHeader(dst []byte, h header) []byte {
	dst = append(dst, h.format, h.kind)
	dst = binary.AppendUvarint(dst, h.term)
	return binary.AppendUvarint(dst, h.number)
}

// countEntries returns how many sequences an entry of raft's log takes.
func countEntries(l *raft.Log, newest byte) uint64 {
	if l.Type != raft.LogCommand {
		return 0
	}
	h, body, err := parseGroup(l.Data, newest)
	if err != nil || h.term != l.Term || h.kind != groupEntries {
		return 0
	}
	d := binio.NewDecoder(body)
	return uint64(d.Count(4))
}

// parseGroup returns the header of a group and its body, if the program reads its format.
func parseGroup(b []byte, newest byte) (header, []byte, error) {
	d := binio.NewDecoder(b)
	format := d.Byte()
	if d.Err() == nil && (format == 0 || format > newest) {
		return header{}, nil, binio.CheckVersions("", groupFormat, uint64(format), 1, uint64(newest))
	}
	h := header{format: format, kind: d.Byte(), term: d.Uvarint(), number: d.Uvarint()}
	if err := d.Err(); err != nil {
		return header{}, nil, err
	}
	if h.kind != groupEntries && h.kind != groupMark {
		return header{}, nil, binio.Unknown("", groupFormat, fmt.Sprintf("kind %d", h.kind))
	}
	return h, b[d.Offset():], nil
}
