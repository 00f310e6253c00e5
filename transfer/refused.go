package transfer

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

	"tsdbd/internal/vfs"
	"tsdbd/lineproto"
)

// Refused keeps the lines that a server has refused, each once: parts of a source are
// asked for again after an error, and an import that was killed is repeated. It may be
// used by many goroutines.
type Refused struct {
	mu struct {
		sync.Mutex
		file   *os.File // nil: lines are only counted
		keeps  bool     // the file is one of a disk
		head   heading  // of the latest line in the file
		seen   seenLines
		lines  int64
		before int64 // of lines, when the file was opened
		dirty  bool  // the file has lines that are not synced
		err    error // the first one, after which lines may be missing
	}
}

// OpenRefused opens the file name for refused lines as Import reads them. If goOn is set,
// lines that the file has stay, and Write does not repeat them. Without a name lines are
// only counted. A name of a device or a pipe, such as /dev/stderr, is written to.
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
	var head heading
	end := int64(0)
	for lines.Scan() {
		line := lines.Bytes()
		if !head.take(line) {
			if _, err := r.takeLocked(head, line); err != nil {
				return err
			}
		}
		end += int64(len(line))
	}
	if err := lines.Err(); err != nil {
		return err
	}
	r.mu.before = r.mu.lines
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

// heading is what says where the lines below it belong.
type heading struct{ database, policy string }

// take takes a line that is a header.
func (h *heading) take(line []byte) bool {
	switch {
	case bytes.HasPrefix(line, []byte("# CONTEXT-DATABASE:")):
		*h = heading{database: string(line)}
	case bytes.HasPrefix(line, []byte("# CONTEXT-RETENTION-POLICY:")):
		h.policy = string(line)
	default:
		return false
	}
	return true
}

// takeLocked reports whether a line is new, and counts it.
func (r *Refused) takeLocked(head heading, line []byte) (bool, error) {
	digest := sha256.New()
	_, _ = io.WriteString(digest, head.database+head.policy) // never fails
	_, _ = digest.Write(line)                                // never fails
	is, err := r.mu.seen.add([digestSize]byte(digest.Sum(nil)))
	if is {
		r.mu.lines++
	}
	return is, err
}

// Write takes lines and comments below their headers. It is the io.Writer of
// ImportOptions. After an error it always fails: what it has seen may not be in the file.
func (r *Refused) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.err == nil {
		r.mu.err = r.writeLocked(b)
	}
	if r.mu.err != nil {
		return 0, r.mu.err
	}
	return len(b), nil
}

func (r *Refused) writeLocked(b []byte) error {
	var head heading
	var out []byte
	for line := range lineproto.Lines(b) {
		if head.take(line) {
			continue
		}
		is, err := r.takeLocked(head, line)
		if err != nil {
			return err
		}
		if !is || r.mu.file == nil {
			continue
		}
		if head != r.mu.head {
			out = append(append(out, head.database...), head.policy...)
			r.mu.head = head
		}
		out = append(out, line...)
	}
	if len(out) == 0 {
		return nil
	}
	r.mu.dirty = true
	_, err := r.mu.file.Write(out)
	return err
}

// Lines returns how many lines there are. If an earlier import has refused more than the
// file had when it was opened, because that import had no file or another one, Lines counts
// those of the earlier one instead.
func (r *Refused) Lines(earlier int64) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(r.mu.before, earlier) + r.mu.lines - r.mu.before
}

// Sync makes the lines durable. It fails if a Write or a Sync has failed.
func (r *Refused) Sync() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.err == nil && r.mu.dirty && r.mu.keeps {
		r.mu.err = r.mu.file.Sync()
	}
	r.mu.dirty = false
	return r.mu.err
}

// Close closes the file, which stays.
func (r *Refused) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	err := r.mu.seen.close()
	if r.mu.file != nil {
		err = errors.Join(err, r.mu.file.Close())
	}
	return err
}
