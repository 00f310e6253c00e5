package tsm1

import (
	"archive/tar"
	"bufio"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"strconv"
	"strings"

	"tsdbd/internal/binio"
)

// tarMembers are the files in tars, by shard and by name.
type tarMembers map[shardKey]map[string]shardFile

// tarFile is a tar that is open.
type tarFile interface {
	io.ReaderAt
	io.Closer
}

// add finds the files in a tar that is not compressed, where they are read in place. The
// name is for messages. open opens the tar for each file that is read. A file that the tar
// does not have to its end is left out with an error.
func (m tarMembers) add(name string, f *os.File, open func() (tarFile, error)) error {
	info, err := f.Stat()
	if err != nil {
		return err
	}
	t := tar.NewReader(f)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		offset, serr := f.Seek(0, io.SeekCurrent)
		if err != nil || serr != nil {
			return binio.Corruptf(name, offset, "it is half a copy: %v", errors.Join(err, serr))
		}
		key, base, ok := tarName(h.Name)
		if !ok {
			continue
		}
		if have := info.Size() - offset; have < h.Size {
			return binio.Corruptf(name, info.Size(), "it is half a copy: %s ends after %d of %d bytes", base, have, h.Size)
		}
		if m[key] == nil {
			m[key] = map[string]shardFile{}
		}
		m[key][base] = shardFile{path: name + ":" + base, size: h.Size, open: func() (section, error) {
			f, err := open()
			return section{io.NewSectionReader(f, offset, h.Size), f}, err
		}}
	}
}

// open finds the files in a tar.
func (m tarMembers) open(name string) error {
	f, err := os.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	return m.add(name, f, func() (tarFile, error) { return os.Open(name) })
}

// tarName takes the name of a file in a tar apart.
func tarName(name string) (key shardKey, base string, ok bool) {
	parts := strings.Split(path.Clean(strings.ReplaceAll(name, `\`, "/")), "/")
	if len(parts) != 4 {
		return key, "", false
	}
	id, err := strconv.ParseUint(parts[2], 10, 64)
	return shardKey{parts[0], parts[1], id}, parts[3], err == nil
}

// addArchive gives a shard the tar of a backup. A tar that is compressed is unpacked when
// the shard is read.
func (s *Source) addArchive(sh *Shard, name string, size int64) error {
	unpacked, err := unpackedSize(name, size)
	if err != nil {
		return err
	}
	if unpacked > 0 {
		sh.archive, sh.Unpacked, sh.TSMBytes = name, unpacked, size
		return nil
	}
	members := tarMembers{}
	if err := members.open(name); err != nil {
		s.damage(name, offsetOf(err), err)
	}
	sh.addMembers(members)
	return nil
}

// addMembers adds the files of a tar that has one shard.
func (sh *Shard) addMembers(members tarMembers) {
	for _, files := range members {
		sh.add(files)
	}
}

// estimateArchives estimates the values of shards that are compressed, by the largest one
// that is unpacked in a moment.
func (s *Source) estimateArchives() {
	var sample *Shard
	for _, sh := range s.shards {
		if sh.archive != "" && sh.Unpacked <= sampledBytes && (sample == nil || sh.TSMBytes > sample.TSMBytes) {
			sample = sh
		}
	}
	if sample == nil {
		return
	}
	unpacked, closer, err := s.unpack(context.Background(), sample)
	if err != nil {
		return // the reader of the shard says why
	}
	values := float64(unpacked.estimate())
	_ = closer.Close()
	for _, sh := range s.shards {
		if sh.archive != "" {
			sh.Values = int64(values * float64(sh.TSMBytes) / float64(max(sample.TSMBytes, 1)))
		}
	}
}

// sampledBytes bounds what is unpacked for an estimate.
const sampledBytes = 64 << 20

// unpackedSize returns how many bytes a gzip file of a size says that it has unpacked, at least;
// 0 of a file that is not compressed by gzip.
func unpackedSize(name string, size int64) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer func() { _ = f.Close() }()
	var head [2]byte
	var tail [4]byte
	for at, b := range map[int64][]byte{0: head[:], max(size-4, 1): tail[:]} {
		if _, err := f.ReadAt(b, at); err != nil && !errors.Is(err, io.EOF) {
			return 0, err
		}
	}
	if head != [2]byte{0x1f, 0x8b} {
		return 0, nil
	}
	n := int64(binary.LittleEndian.Uint32(tail[:])) // its lower bits
	for n < size {
		n += 1 << 32
	}
	return n, nil
}

// unpack returns a shard whose files can be read: the shard itself, or what its archive has,
// unpacked into a file. Closing removes the file.
func (s *Source) unpack(ctx context.Context, sh *Shard) (_ *Shard, _ io.Closer, err error) {
	if sh.archive == "" {
		return sh, io.NopCloser(nil), nil
	}
	f, closer, err := s.scratch()
	if err != nil {
		return nil, nil, fmt.Errorf("unpack %s: %w", sh.archive, err)
	}
	damage, err := gunzip(ctx, f, sh.archive)
	if err != nil {
		return nil, nil, errors.Join(fmt.Errorf("unpack %s: %w", sh.archive, err), closer.Close())
	}
	members := tarMembers{}
	if _, err = f.Seek(0, io.SeekStart); err == nil {
		err = members.add(sh.archive, f, func() (tarFile, error) {
			return struct {
				io.ReaderAt
				io.Closer
			}{f, io.NopCloser(nil)}, nil
		})
	}
	switch {
	case damage != nil:
		s.damage(sh.archive, offsetOf(damage), damage)
	case err != nil:
		s.damage(sh.archive, -1, fmt.Errorf("unpacked, %w", err))
	}
	unpacked := &Shard{}
	unpacked.addMembers(members)
	return unpacked, closer, nil
}

// gunzip appends what a gzip file has to another file. What comes after damage is missing.
func gunzip(ctx context.Context, to io.Writer, name string) (damage, err error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	in := bufio.NewReaderSize(&cancelled{ctx, f}, 1<<16)
	var n int64
	z, err := gzip.NewReader(in)
	if err == nil {
		n, err = io.Copy(to, z)
	}
	if err == nil {
		return nil, nil
	}
	if cerr := ctx.Err(); cerr != nil {
		return nil, cerr
	}
	if write := (*os.PathError)(nil); errors.As(err, &write) && write.Path != name {
		return nil, err
	}
	err = fmt.Errorf("ends after %d unpacked bytes: %w", n, err)
	at, _ := f.Seek(0, io.SeekCurrent)
	return binio.Corruptf(name, at-int64(in.Buffered()), "it is half a copy or damaged: %v", err), nil
}

// cancelled is a file that is read until a context is done.
type cancelled struct {
	ctx context.Context
	*os.File
}

// Read implements io.Reader.
func (c *cancelled) Read(b []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.File.Read(b)
}

// scratch makes a file for what is unpacked. Closing removes the file. Where the system
// can, the file has no name from the beginning, so that nothing is left after a kill.
func (s *Source) scratch() (*os.File, io.Closer, error) {
	f, err := os.CreateTemp(s.opt.TempDir, "tsdbd-import-")
	if err != nil {
		return nil, nil, err
	}
	if os.Remove(f.Name()) == nil {
		return f, f, nil
	}
	return f, namedScratch{f}, nil
}

// namedScratch is a file that is removed when it is closed.
type namedScratch struct{ *os.File }

// Close closes and removes the file.
func (n namedScratch) Close() error { return errors.Join(n.File.Close(), os.Remove(n.Name())) }
