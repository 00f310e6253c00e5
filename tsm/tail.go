package tsm

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
)

// A tail file holds a TSM file from its index region on, byte by byte, behind
//
//	magic | version u16 | features u16 | base u64 | size u64 | header of the TSM file 16 | CRC32C of all before u32
//
// Base is where the index region begins in the TSM file, which has size bytes. What lies
// before base, the body, is elsewhere. Offsets, in the file and in errors, are those of
// the TSM file.
const (
	tailMagic      = "tsdbdTAI"
	tailVersion    = 1
	tailHeaderSize = 8 + 2 + 2 + 8 + 8 + headerSize + 4
)

// Body reads bytes of a TSM file that lie in front of its index, when only the index is
// local. It is safe for concurrent use.
type Body interface {
	// ReadBody fills p with the bytes at offset off of the file, or returns an error that
	// names the object. It is no *binio.CorruptError if the object cannot be reached.
	ReadBody(ctx context.Context, p []byte, off int64) error
}

// CachedBody is a Body that keeps what it has read. A Reader uses these methods if its
// body has them.
type CachedBody interface {
	Body
	// Name names the object in errors of its bytes.
	Name() string
	// Expect says that some of the n bytes at offset off will be read, so that they can be
	// had in one request.
	Expect(ctx context.Context, off int64, n int) error
	// ReadBodyAgain is ReadBody for bytes that have turned out wrong: it does not give what
	// it has kept.
	ReadBodyAgain(ctx context.Context, p []byte, off int64) error
}

// OpenTail maps a tail file and checks it as Open checks a file. The body of the file is
// read when it is needed: for times and columns of chunks in the data section, and by
// Verify. Keys, index entries, statistics and inline chunks are in the tail.
func OpenTail(fs vfs.FS, path string, body Body) (_ *Reader, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("open tail of tsm %s: %w", path, err)
		}
	}()
	f, err := mapped.Open(fs, path)
	if err != nil {
		return nil, err
	}
	r := &Reader{File: f, body: body}
	if err := r.openTail(); err != nil {
		return nil, errors.Join(err, f.Release())
	}
	return r, nil
}

func (r *Reader) openTail() (err error) {
	defer vfs.CatchFault(&err)()
	b := r.Data()
	bad := func(off int, reason string) error { return binio.Corruptf(r.Path(), int64(off), "tsm: %s", reason) }
	if len(b) < tailHeaderSize {
		return bad(0, fmt.Sprintf("tail of %d bytes is too short", len(b)))
	}
	le := binary.LittleEndian
	head := b[:tailHeaderSize]
	if string(head[:8]) != tailMagic {
		return bad(0, "bad magic of a tail")
	}
	if le.Uint32(head[tailHeaderSize-4:]) != binio.Checksum(head[:tailHeaderSize-4]) {
		return bad(0, "tail header checksum mismatch")
	}
	if err := binio.CheckVersions(r.Path(), "tail of a TSM file", uint64(le.Uint32(head[8:])), tailVersion, tailVersion); err != nil {
		return err
	}
	base, size := le.Uint64(head[12:]), le.Uint64(head[20:])
	r.bytes, r.base = b[tailHeaderSize:], base
	if base < headerSize || size < base || size-base != uint64(len(r.bytes)) {
		return bad(12, fmt.Sprintf("tail has %d bytes from %d on, of a file of %d bytes", len(r.bytes), base, size))
	}
	if r.foot, err = parseFooter(r.Path(), head[28:28+headerSize], r.bytes, base); err != nil {
		return err
	}
	if r.foot.sec.keys != base {
		return bad(12, "tail does not begin where the data section ends")
	}
	return r.ready()
}

// Remote reports whether the body of the file is elsewhere.
func (r *Reader) Remote() bool { return r.body != nil }

// WriteTail writes the tail of the file to path, and syncs it. The index region is checked
// first. The caller syncs the directory.
func (r *Reader) WriteTail(fs vfs.FS, path string) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("write tail of tsm %s: %w", r.Path(), err)
		}
	}()
	if err := r.VerifyIndex(); err != nil {
		return err
	}
	defer vfs.CatchFault(&err)()
	s := &r.foot.sec
	header := r.bytes[:headerSize]
	if r.body != nil {
		header = r.Data()[28 : 28+headerSize]
	}
	return writeTail(fs, path, header, &r.foot, func(f vfs.File) error {
		_, err := f.Write(r.bytes[s.keys-r.base:])
		return err
	})
}

// writeTail writes a tail file. index writes what stands behind the header.
func writeTail(fs vfs.FS, path string, header []byte, foot *footer, index func(vfs.File) error) error {
	le := binary.LittleEndian
	head := append(make([]byte, 0, tailHeaderSize), tailMagic...)
	head = le.AppendUint16(head, tailVersion)
	head = le.AppendUint16(head, 0)
	head = le.AppendUint64(head, foot.sec.keys)
	head = le.AppendUint64(head, uint64(foot.info.Size))
	head = append(head, header...)
	head = le.AppendUint32(head, binio.Checksum(head))
	f, err := fs.Create(path)
	if err != nil {
		return err
	}
	if _, err = f.Write(head); err == nil {
		err = index(f)
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		err = errors.Join(err, fs.Remove(path))
	}
	return err
}

const (
	// footerBytes is how much of the end of a file FetchTail reads at first: all of the
	// footer, unless keys are very long.
	footerBytes = 4 << 10
	// maxFooterBytes bounds it: two keys and some numbers.
	maxFooterBytes = 1 << 20
	// fetchBytes is how much it reads at a time.
	fetchBytes = 1 << 20
)

// FetchTail writes the tail of a file of which nothing is local to path, and syncs it. It
// reads the header and what the tail has, and checks the footer. OpenTail and the reads behind it
// check the rest. name is that of the file in errors.
func FetchTail(ctx context.Context, fs vfs.FS, path string, body Body, name string, size int64) (err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("fetch tail of tsm %s: %w", name, err)
		}
	}()
	if size < headerSize+trailerSize {
		return binio.Corruptf(name, 0, "tsm: file of %d bytes is too short", size)
	}
	header := make([]byte, headerSize)
	if err := body.ReadBody(ctx, header, 0); err != nil {
		return err
	}
	var end []byte
	for n := min(size, footerBytes); ; {
		end = make([]byte, n)
		if err := body.ReadBody(ctx, end, size-n); err != nil {
			return err
		}
		length := int64(binary.LittleEndian.Uint32(end[n-trailerSize:])) + trailerSize
		if length <= n || length > size {
			break // the second is damage, which parseFooter tells
		}
		if length > maxFooterBytes {
			return binio.Corruptf(name, size-trailerSize, "tsm: footer of %d bytes", length)
		}
		n = length
	}
	foot, err := parseFooter(name, header, end, uint64(size)-uint64(len(end)))
	if err != nil {
		return err
	}
	return writeTail(fs, path, header, &foot, func(f vfs.File) error {
		p := make([]byte, min(fetchBytes, size-int64(foot.sec.keys)))
		for at := int64(foot.sec.keys); at < size; {
			p = p[:min(int64(len(p)), size-at)]
			if err := body.ReadBody(ctx, p, at); err != nil {
				return err
			}
			if _, err := f.Write(p); err != nil {
				return err
			}
			at += int64(len(p))
		}
		return nil
	})
}

// blamed returns the name of what damage in the data section is damage of.
func (r *Reader) blamed() string {
	if b, ok := r.body.(CachedBody); ok {
		return b.Name()
	}
	return r.Path()
}

// firstBytes is how much of a chunk's body is read at first, nearly always the head. A body of up to
// smallBytes is read whole, and so is any, up to wholeBytes, if most of the chunk before was asked
// for: copies cost less in one.
const (
	firstBytes = 512
	smallBytes = 4 << 10
	wholeBytes = 64 << 10
)

func (c *Chunk) context() context.Context {
	if c.Ctx == nil {
		return context.Background()
	}
	return c.Ctx
}

// fetchHead reads the first bytes of a body that is elsewhere, and sets places.
func (c *Chunk) fetchHead() error {
	if c.failed == nil {
		c.failed = c.readHead()
	}
	return c.failed
}

func (c *Chunk) readHead() error {
	ctx, n, first := c.context(), c.e.Bytes, firstBytes
	if n <= smallBytes || c.asked > c.of/2 {
		first = wholeBytes
	}
	cached, _ := c.r.body.(CachedBody)
	if cached != nil && n > first {
		if err := cached.Expect(ctx, c.off, n); err != nil {
			return err
		}
	}
	c.copied = grow(c.copied, n)
	read := c.r.body.ReadBody
	for try := 1; ; try++ {
		c.have = min(n, first)
		if err := read(ctx, c.copied[:c.have], c.off); err != nil {
			return err
		}
		// The length is not checked yet: if it is wrong, so is the checksum.
		if head, start := binio.Uvarint(c.copied[:c.have], 4); start >= 0 && head <= uint64(n-start) && start+int(head) > c.have {
			end := start + int(head)
			if err := read(ctx, c.copied[c.have:end], c.off+int64(c.have)); err != nil {
				return err
			}
			c.have = end
		}
		reason, at := parseDataBody(c.copied, c.places)
		if reason == "" {
			c.parsed, c.body = true, c.copied
			c.asked, c.of = 0, n
			return nil
		}
		if cached == nil || try > 1 {
			return c.damage(c.off+int64(at), reason)
		}
		read = cached.ReadBodyAgain
	}
}

// fetchColumn makes the bytes of a large column of a body that is elsewhere sound.
func (c *Chunk) fetchColumn(p *columnPlace) error {
	if p.copied || c.failed != nil {
		return c.failed
	}
	b := c.body[p.off-4 : p.off+p.size]
	sound := func() bool { return binio.Checksum(b[4:]) == binary.LittleEndian.Uint32(b) }
	if int(p.off+p.size) > c.have || !sound() {
		if err := c.fetch(b, c.off+int64(p.off)-4, 4, sound, "column checksum mismatch"); err != nil {
			return err
		}
	}
	p.copied = true
	c.asked += len(b)
	return nil
}

// sharedTimes returns the block of times of another chunk of a body that is elsewhere.
func (c *Chunk) sharedTimes(off int64, size int, want uint32) ([]byte, error) {
	if c.failed != nil {
		return nil, c.failed
	}
	b := grow(c.shared, size)
	c.shared = b
	return b, c.fetch(b, off, 0, func() bool { return binio.Checksum(b) == want }, sharedMismatch)
}

// fetch reads bytes of the body at an offset of the file until they are sound, at most twice.
// Damage is at skip bytes behind the offset.
func (c *Chunk) fetch(p []byte, off, skip int64, sound func() bool, reason string) error {
	ctx := c.context()
	err := c.r.body.ReadBody(ctx, p, off)
	if err == nil && !sound() {
		if b, ok := c.r.body.(CachedBody); ok {
			err = b.ReadBodyAgain(ctx, p, off)
		}
		if err == nil && !sound() {
			return c.damage(off+skip, reason)
		}
	}
	if err != nil && !errors.Is(err, binio.ErrCorrupt) {
		c.failed = err // it takes long to find out that the object cannot be reached
	}
	return err
}
