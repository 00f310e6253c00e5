package lines

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"tsdbd/transfer/mover"
)

// form is what input begins with.
type form struct {
	magic  string
	at     int    // where the magic is
	what   string // for a user
	advice string
}

// The forms that Part reads by itself.
const (
	gzipMagic = "\x1f\x8b"
	zstdMagic = "\x28\xb5\x2f\xfd"
)

const (
	unpack  = "unpack it first, for example with "
	convert = "convert it to CSV first, for example with "
)

// foreignForms are what a user may take for input, and what to do with it.
var foreignForms = []form{
	{"\xfd7zXZ\x00", 0, "compressed by xz", unpack + "xz -dc"},
	{"\x31\x41\x59\x26\x53\x59", 4, "compressed by bzip2", unpack + "bzip2 -dc"},
	{"\x04\x22\x4d\x18", 0, "compressed by lz4", unpack + "lz4 -dc"},
	{"\xff\x06\x00\x00sNaPpY", 0, "compressed by snappy", unpack + "snzip -dc"},
	{"\x1f\x9d", 0, "compressed by compress", unpack + "uncompress -c"},
	{"7z\xbc\xaf\x27\x1c", 0, "a 7z archive", unpack + "7z x"},
	{"PK\x03\x04", 0, "a zip archive", unpack + "unzip"},
	{"ustar\x00", 257, "a tar archive", unpack + "tar -x"},
	{"ustar  \x00", 257, "a tar archive", unpack + "tar -x"},
	{"PAR1\x15", 0, "a Parquet file", convert + "duckdb"},
	{"ARROW1\x00", 0, "an Arrow file", convert + "duckdb"},
	{"Obj\x01", 0, "an Avro file", convert + "avro cat"},
	{"SQLite format 3\x00", 0, "a SQLite database", convert + "sqlite3 -csv -header"},
	{"\x16\xd1\x16\xd1", 0, "a TSM file of InfluxDB", "import the directory that has data, wal and meta below it with tsdbd import influxdb DIR"},
	{"SSEG\x01", 0, "a series file of InfluxDB", "import the directory that has data, wal and meta below it with tsdbd import influxdb DIR"},
	{"\xff\xfe", 0, "text in UTF-16", "convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8"},
	{"\xfe\xff", 0, "text in UTF-16", "convert it to UTF-8 first, for example with iconv -f UTF-16 -t UTF-8"},
}

const (
	formBytes = 512
	// maxPacked bounds how often input is compressed.
	maxPacked = 3
	// zstdWindow bounds the memory of the decoder. It is that of zstd --long.
	zstdWindow = 128 << 20
)

// Part is a part whose text read passes on. The text may be compressed.
func Part(name string, in io.Reader, read func(r *bufio.Reader, to mover.Lines) error) *mover.Part {
	return &mover.Part{Name: name, Lines: func(_ context.Context, to mover.Lines) error {
		r, done, err := openInput(in)
		defer done()
		if err != nil {
			return err
		}
		return read(r, to)
	}}
}

// openInput returns a reader of input that may be compressed. It refuses input of a form that
// has no lines. The caller calls done at the end.
func openInput(r io.Reader) (br *bufio.Reader, done func(), err error) {
	br, done = bufio.NewReaderSize(r, 1<<20), func() {}
	for range maxPacked {
		head, _ := br.Peek(formBytes) // an error comes again
		switch {
		case bytes.HasPrefix(head, []byte(gzipMagic)):
			z, err := gzip.NewReader(br)
			if err != nil {
				return nil, done, fmt.Errorf("read gzip: %w", err)
			}
			br = bufio.NewReaderSize(z, 1<<20)
		case bytes.HasPrefix(head, []byte(zstdMagic)):
			z, err := zstd.NewReader(br, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow))
			if err != nil {
				return nil, done, fmt.Errorf("read zstd: %w", err)
			}
			before := done
			br, done = bufio.NewReaderSize(z, 1<<20), func() { z.Close(); before() }
		default:
			return br, done, refuseForm(head)
		}
	}
	return br, done, nil
}

// refuseForm returns an error for input of a form that has no lines.
func refuseForm(head []byte) error {
	for _, f := range foreignForms {
		if len(head) >= f.at && bytes.HasPrefix(head[f.at:], []byte(f.magic)) {
			return fmt.Errorf("the input is %s: %s", f.what, f.advice)
		}
	}
	if isNative(head) {
		return fmt.Errorf("the input is VictoriaMetrics' native form: export lines of JSON by /api/v1/export, and import them with -format vm")
	}
	return nil
}

// isNative reports whether input begins as what VictoriaMetrics' /api/v1/export/native has
// written: the first and the last time in milliseconds, and the length of a name, which is
// not short of a byte.
func isNative(head []byte) bool {
	const farFuture = 1 << 48
	if len(head) < 20 {
		return false
	}
	first, last := binary.BigEndian.Uint64(head), binary.BigEndian.Uint64(head[8:])
	name := binary.BigEndian.Uint32(head[16:])
	return first <= last && last > 0 && last < farFuture && name > 0 && name < 1<<20
}
