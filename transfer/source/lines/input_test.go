package lines

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"strings"
	"testing"

	"github.com/klauspost/compress/zstd"
)

func gzipped(b []byte) []byte {
	var out bytes.Buffer
	z := gzip.NewWriter(&out)
	_, _ = z.Write(b) // into memory
	_ = z.Close()
	return out.Bytes()
}

func zstandard(b []byte) []byte {
	z, _ := zstd.NewWriter(nil)
	return z.EncodeAll(b, nil)
}

// TestInput reads what gzip and zstd have compressed, in several parts as well and twice.
func TestInput(t *testing.T) {
	text := []byte("m v=1 1\n" + strings.Repeat("m v=2 2\n", 1000))
	for name, c := range map[string]struct{ in, want []byte }{
		"nothing":             {nil, nil},
		"plain":               {text, text},
		"short":               {text[:3], text[:3]},
		"begins with zeros":   {append(make([]byte, 30), text...), append(make([]byte, 30), text...)},
		"gzip":                {gzipped(text), text},
		"gzip in parts":       {append(gzipped(text), gzipped(text)...), append(bytes.Clone(text), text...)},
		"zstd":                {zstandard(text), text},
		"zstd in parts":       {append(zstandard(text), zstandard(text)...), append(bytes.Clone(text), text...)},
		"zstd in gzip":        {gzipped(zstandard(text)), text},
		"a measurement PAR1":  {[]byte("PAR1 v=1\n"), []byte("PAR1 v=1\n")},
		"a measurement SSEG":  {[]byte("SSEG,h=1 v=1\n"), []byte("SSEG,h=1 v=1\n")},
		"a measurement ustar": {append(bytes.Repeat([]byte("m"), 257), "ustar v=1\n"...), append(bytes.Repeat([]byte("m"), 257), "ustar v=1\n"...)},
	} {
		br, done, err := openInput(bytes.NewReader(c.in))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		got, err := io.ReadAll(br)
		if done(); err != nil || !bytes.Equal(got, c.want) {
			t.Errorf("%s: %.100q, %v", name, got, err)
		}
	}
	for _, broken := range [][]byte{gzipped(text)[:20], zstandard(text)[:20], []byte(zstdMagic)} {
		br, done, err := openInput(bytes.NewReader(broken))
		if err == nil {
			_, err = io.ReadAll(br)
		}
		if done(); err == nil {
			t.Errorf("%q was read", broken)
		}
	}
}

// TestForeignInput names what has no lines, and what to do with it. Nothing of it is sent.
func TestForeignInput(t *testing.T) {
	tar := make([]byte, 512)
	copy(tar, "data/x")
	copy(tar[257:], "ustar\x0000")
	native := binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(nil, 0), 1_780_000_000_000)
	native = append(binary.BigEndian.AppendUint32(native, 12), "name and bytes"...)
	for want, in := range map[string]string{
		"compressed by xz: unpack it first, for example with xz -dc": "\xfd7zXZ\x00\x00\x04",
		"compressed by bzip2":      "BZh91AY&SYxxx",
		"compressed by lz4":        "\x04\x22\x4d\x18xx",
		"compressed by snappy":     "\xff\x06\x00\x00sNaPpYxx",
		"a zip archive":            "PK\x03\x04xxx",
		"a 7z archive":             "7z\xbc\xaf\x27\x1cx",
		"a tar archive":            string(tar),
		"a Parquet file":           "PAR1\x15\x04\x15",
		"a SQLite database":        "SQLite format 3\x00xx",
		"import influxdb DIR":      "\x16\xd1\x16\xd1\x01xx",
		"iconv -f UTF-16 -t UTF-8": "\xff\xfem\x00 \x00",
		"with -format vm":          string(native),
	} {
		for _, b := range [][]byte{[]byte(in), gzipped([]byte(in))} {
			var to recorder
			err := Part("f", bytes.NewReader(b), protocolTo("d", "")).Lines(t.Context(), &to)
			if err == nil || !strings.Contains(err.Error(), want) || len(to.lines)+to.refused > 0 {
				t.Errorf("%.20q: %v, want %s", in, err, want)
			}
		}
	}
}
