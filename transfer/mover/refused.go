package mover

import (
	"bufio"
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"sync"

	"tsdbd/exchange/rows"
	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
)

// Refused is the file of the rows that were refused, each once below its heading: parts of a
// source are asked for again after an error, and an import that was killed is repeated. A row
// is a line of line protocol, a comment in its place, or a row as the source has it. The
// heading of a line says where it belongs, as rows.Header writes it. A Refused may be used by
// many goroutines.
type Refused struct {
	mu struct {
		sync.Mutex
		file   *os.File // nil: lines are only counted
		out    *bufio.Writer
		keeps  bool   // the file is one of a disk
		head   string // heading of the latest line in the file
		seen   seenLines
		lines  int64
		before int64 // of lines, when the file was opened
		synced int64 // of lines, at the latest Sync
		err    error // the first one, after which lines may be missing
	}
}

// OpenRefused opens the file name. If goOn is set, lines that the file has stay, and Keep does
// not repeat them. Without a name lines are only counted. A name of a device or a pipe, such
// as /dev/stderr, is written to.
func OpenRefused(name string, goOn bool) (*Refused, error) {
	r := &Refused{}
	if name == "" {
		r.mu.seen.dir = os.TempDir()
		return r, nil
	}
	var err error
	if at, serr := os.Stat(name); serr == nil && !at.Mode().IsRegular() {
		r.mu.seen.dir = os.TempDir()
		r.mu.file, err = os.OpenFile(name, os.O_WRONLY, 0)
		r.mu.out = bufio.NewWriter(r.mu.file)
		return r, err
	}
	r.mu.seen.dir, r.mu.keeps = filepath.Dir(name), true
	mode := os.O_RDWR | os.O_CREATE
	if !goOn {
		mode |= os.O_TRUNC
	}
	if r.mu.file, err = os.OpenFile(name, mode, 0o600); err != nil {
		return nil, err
	}
	r.mu.out = bufio.NewWriterSize(r.mu.file, 1<<16)
	// A journal trusts that the file is there after a power cut.
	if err := vfs.OS.SyncDir(filepath.Dir(name)); err != nil {
		return nil, errors.Join(fmt.Errorf("create %s: %w", name, err), r.Close())
	}
	if err := r.read(); err != nil {
		return nil, errors.Join(fmt.Errorf("read refused lines in %s: %w", name, err), r.Close())
	}
	return r, nil
}

// read takes in the lines of the file. A line without its end is cut off: the import that
// wrote it was killed, and refuses it again.
func (r *Refused) read() error {
	lines := bufio.NewScanner(r.mu.file)
	lines.Buffer(nil, math.MaxInt) // a comment may quote a line, and be longer
	lines.Split(splitLine)
	var heading []byte
	end := int64(0)
	for lines.Scan() {
		line := lines.Bytes()
		end += int64(len(line))
		if bytes.HasPrefix(line, []byte(rows.DatabaseHeader)) {
			heading = bytes.Clone(line)
		} else if bytes.HasPrefix(line, []byte(rows.PolicyHeader)) {
			heading = append(heading, line...)
		} else if _, err := r.takeLocked(heading, bytes.TrimSuffix(line, []byte{'\n'})); err != nil {
			return err
		}
	}
	if err := lines.Err(); err != nil {
		return err
	}
	r.mu.before, r.mu.synced = r.mu.lines, r.mu.lines
	if err := r.mu.file.Truncate(end); err != nil {
		return err
	}
	_, err := r.mu.file.Seek(end, io.SeekStart)
	return err
}

// splitLine is a bufio.SplitFunc for lines with their line breaks. Strings may have line
// breaks of their own.
func splitLine(data []byte, _ bool) (advance int, line []byte, err error) {
	var l lineproto.Line
	if n, ended := l.End(data); ended {
		return n, data[:n], nil
	}
	return 0, nil, nil
}

// takeLocked reports whether a line is new, and counts it.
func (r *Refused) takeLocked(heading, line []byte) (bool, error) {
	digest := sha256.New()
	for _, b := range [][]byte{heading, line, {'\n'}} {
		_, _ = digest.Write(b) // never fails
	}
	is, err := r.mu.seen.add([digestSize]byte(digest.Sum(nil)))
	if is {
		r.mu.lines++
	}
	return is, err
}

// Keep keeps a row, without its line break, below a heading, which has one or is empty. After
// an error it always fails: what it has seen may not be in the file.
func (r *Refused) Keep(heading, row []byte) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keepLocked(heading, row)
	return r.mu.err
}

func (r *Refused) keepLocked(heading, row []byte) {
	if r.mu.err != nil {
		return
	}
	is, err := r.takeLocked(heading, row)
	if r.mu.err = err; err != nil || !is || r.mu.file == nil {
		return
	}
	if string(heading) != r.mu.head {
		r.mu.head = string(heading)
		_, _ = r.mu.out.Write(heading) // the error comes again
	}
	_, _ = r.mu.out.Write(row) // the error comes again
	r.mu.err = r.mu.out.WriteByte('\n')
}

// Lines returns how many lines there are. If an earlier import has refused more than the
// file had when it was opened, because that import had no file or another one, Lines counts
// those of the earlier one instead.
func (r *Refused) Lines(earlier int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.mu.before, earlier) + r.mu.lines - r.mu.before
}

// Sync makes the lines durable. It fails if Keep or Sync has failed.
func (r *Refused) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.err != nil || r.mu.file == nil || r.mu.synced == r.mu.lines {
		return r.mu.err
	}
	if r.mu.err = r.mu.out.Flush(); r.mu.err == nil && r.mu.keeps {
		r.mu.err = r.mu.file.Sync()
	}
	r.mu.synced = r.mu.lines
	return r.mu.err
}

// Close closes the file, which stays.
func (r *Refused) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.mu.seen.close()
	if r.mu.file != nil {
		err = errors.Join(err, r.mu.out.Flush(), r.mu.file.Close())
	}
	return err
}
