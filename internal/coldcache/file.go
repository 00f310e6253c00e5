package coldcache

import (
	"cmp"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
)

// A range file has the bytes of a range and behind them
//
//	magic | version u16 | 0 u16 | CRC32C u32
//
// The checksum is of the range, the trailer before it, the number of the range as u32,
// and the name of the object. The file is called
//
//	<first 16 bytes of the SHA-256 of the object's name>-<number of the range>-<number of the file>
//
// in hex. Numbers of files are never given again, so that a file which is being removed
// is never one that was just written. It is written under another name and renamed.
const (
	rangeMagic   = "tsdbdRNG"
	rangeVersion = 1
	trailerBytes = 8 + 2 + 2 + 4
	fileBytes    = rangeBytes + trailerBytes
	temporary    = ".tmp"
)

// buffer is the memory that a range is fetched into. The range stays in it until a run takes
// the buffer: most are read at once, and then the file need not be mapped.
type buffer struct {
	bytes []byte // room for a range file, made at first use
	owner *entry // whose range it has, or nil
}

// take gives n bytes of the buffer to the caller, and takes it from its owner. A range
// whose file could not be written is gone then.
func (b *buffer) take(c *Cache, n int) []byte {
	if e := b.owner; e != nil {
		b.owner = nil
		if !e.leave(b) {
			c.drop(e)
		}
	}
	if b.bytes == nil {
		b.bytes = make([]byte, fileBytes)
	}
	return b.bytes[:n]
}

func (c *Cache) path(name string) string { return path.Join(c.opt.Dir, name) }

// checksum returns the checksum of a range file, whose trailer has no checksum yet.
func checksum(file []byte, object string, n uint32) uint32 {
	sum := binio.Checksum(file[:len(file)-4])
	sum = binio.ChecksumUpdate(sum, binary.LittleEndian.AppendUint32(nil, n))
	return binio.ChecksumUpdate(sum, []byte(object))
}

// appendTrailer makes bytes of a range those of its file.
func appendTrailer(data []byte, object string, n uint32) []byte {
	le := binary.LittleEndian
	data = append(data, rangeMagic...)
	data = le.AppendUint16(data, rangeVersion)
	data = le.AppendUint16(data, 0)
	data = append(data, 0, 0, 0, 0)
	le.PutUint32(data[len(data)-4:], checksum(data, object, n))
	return data
}

// checkRange reports what is wrong with the bytes of a range file, "" if nothing is.
func checkRange(file []byte, size int, object string, n uint32) string {
	if len(file) != size+trailerBytes {
		return fmt.Sprintf("range file has %d bytes, not %d", len(file), size+trailerBytes)
	}
	t := file[size:]
	if string(t[:8]) != rangeMagic || binary.LittleEndian.Uint32(t[8:]) != rangeVersion {
		return "no range file of this version"
	}
	if checksum(file, object, n) != binary.LittleEndian.Uint32(t[12:]) {
		return "range file checksum mismatch"
	}
	return ""
}

// arrive gives a range that is in a buffer to those who wait for it, and writes its file.
func (c *Cache) arrive(f *flight, b *buffer) {
	e, o := f.e, f.run.o
	e.mu.Lock()
	e.mu.buffer, e.mu.flight = b, nil
	e.mu.Unlock()
	close(f.done)
	for _, victim := range c.clock.add(e, c.opt.Size) {
		c.count.evictions.Add(1)
		c.drop(victim)
	}
	name := fmt.Sprintf("%x-%08x-%016x", e.key.object, e.key.n, c.number.Add(1))
	err := c.write(name, appendTrailer(b.bytes[:e.size], o.name, e.key.n))
	e.mu.Lock()
	kept := err == nil && !e.mu.gone
	switch {
	case kept:
		e.mu.name, b.owner = name, e
	case e.mu.gone: // somebody has dropped the range meanwhile
		if e.mu.buffer = nil; err == nil {
			err = c.opt.FS.Remove(c.path(name))
		}
	default:
		b.owner = e
	}
	e.mu.Unlock()
	if !kept {
		c.clock.remove(e)
	}
	if err != nil {
		c.warn(err)
	}
	c.free <- b
}

// write writes a range file. Nothing is synced.
func (c *Cache) write(name string, file []byte) error {
	tmp := c.path(name + temporary)
	f, err := c.opt.FS.Create(tmp)
	if err != nil {
		return err
	}
	_, err = f.Write(file)
	if err = cmp.Or(err, f.Close()); err == nil {
		err = c.opt.FS.Rename(tmp, c.path(name))
	}
	if err != nil {
		return errors.Join(err, c.opt.FS.Remove(tmp))
	}
	return nil
}

// openRange maps the file of a range and checks it. The lock of the entry is held.
func (c *Cache) openRange(o *Object, e *entry) (_ *mapped.File, err error) {
	f, err := mapped.Open(c.opt.FS, c.path(e.mu.name))
	if err != nil {
		return nil, err
	}
	check := func() (err error) {
		defer vfs.CatchFault(&err)()
		if reason := checkRange(f.Data(), o.rangeSize(int64(e.key.n)), o.name, e.key.n); reason != "" {
			return binio.Corruptf(f.Path(), -1, "%s", reason)
		}
		return nil
	}
	if err := check(); err != nil {
		return nil, errors.Join(err, f.Release())
	}
	return f, nil
}

// load takes over the files in the directory. What is not whole is removed, as far as its
// size tells; the checksum is checked when a file is read.
func (c *Cache) load() error {
	if err := c.opt.FS.MkdirAll(c.opt.Dir); err != nil {
		return err
	}
	names, err := c.opt.FS.List(c.opt.Dir)
	if err != nil {
		return err
	}
	for _, name := range names {
		k, number, ok := parseName(strings.TrimSuffix(name, temporary))
		if !ok {
			continue // not ours
		}
		c.number.Store(max(c.number.Load(), number))
		st, err := c.opt.FS.Stat(c.path(name))
		if err != nil {
			return err
		}
		if size := st.Size() - trailerBytes; strings.HasSuffix(name, temporary) || size <= 0 || size > rangeBytes {
			if err := c.opt.FS.Remove(c.path(name)); err != nil {
				c.warn(err)
			}
			continue
		}
		e := &entry{key: k, size: int(st.Size() - trailerBytes), slot: -1}
		e.mu.name = name
		if old := c.table.replace(e); old != nil {
			c.drop(old)
		}
		for _, victim := range c.clock.add(e, c.opt.Size) {
			c.count.evictions.Add(1)
			c.drop(victim)
		}
	}
	return nil
}

// parseName takes the name of a range file apart.
func parseName(name string) (k key, number uint64, ok bool) {
	const idLength = 2 * len(k.object)
	if len(name) != idLength+1+8+1+16 || name[idLength] != '-' || name[idLength+9] != '-' {
		return k, 0, false
	}
	_, err := hex.Decode(k.object[:], []byte(name[:idLength]))
	n, nerr := strconv.ParseUint(name[idLength+1:idLength+9], 16, 32)
	number, ferr := strconv.ParseUint(name[idLength+10:], 16, 64)
	k.n = uint32(n)
	return k, number, errors.Join(err, nerr, ferr) == nil
}
