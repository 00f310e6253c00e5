//go:build ppc64 || mips || mips64 || s390x || sparc64 || armbe || arm64be || ppc

package binio

// Words of files and columns are taken from memory as they lie. A processor with
// the other order of bytes would read and write other files.
var _ = tsdbdNeedsALittleEndianProcessor
