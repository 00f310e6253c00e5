package journal

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// magic is the first line of the file: magicName and the version.
const (
	magicName = "tsdbd import journal "
	version   = 2
	magic     = magicName + "2\n"
)

// Journal is an open journal.
type Journal struct {
	fs   vfs.FS
	name string

	mu struct {
		sync.Mutex
		file vfs.File
		size int64 // where the next line begins
		done map[string]Refused
		err  error // of the first Finish that failed
	}
}

// Refused is what the target has refused of a finished part, and does not have. The import
// that continues does not read the part again, and must tell it all the same.
type Refused struct {
	Count   int64
	Reasons []string // some of them
}

// maxReasons bounds the reasons of a part.
const maxReasons = 20

// Add adds what was refused besides.
func (r *Refused) Add(o Refused) {
	r.Count += o.Count
	for _, reason := range o.Reasons {
		if len(r.Reasons) < maxReasons && !slices.Contains(r.Reasons, reason) {
			r.Reasons = append(r.Reasons, reason)
		}
	}
}

// Open opens the journal name, or creates it. what names the source and the target of the
// import. A journal of another import is refused, and so is any other file.
func Open(name, what string) (*Journal, error) {
	name, err := filepath.Abs(name)
	if err != nil {
		return nil, err
	}
	return open(vfs.OS, filepath.ToSlash(name), what)
}

func open(fsys vfs.FS, name, what string) (*Journal, error) {
	f, err := fsys.OpenReadWrite(name)
	if errors.Is(err, fs.ErrNotExist) {
		if err = vfs.WriteFileAtomic(fsys, path.Dir(name), name, appendLine([]byte(magic), what, Refused{})); err == nil {
			f, err = fsys.OpenReadWrite(name)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("open journal: %w", err)
	}
	j := &Journal{fs: fsys, name: name}
	j.mu.file, j.mu.done = f, map[string]Refused{}
	if err := j.read(what); err != nil {
		_ = f.Close() // nothing was written
		return nil, fmt.Errorf("open journal %s: %w", name, err)
	}
	return j, nil
}

// read takes in what earlier imports have finished.
func (j *Journal) read(what string) error {
	size, err := j.mu.file.Size()
	if err != nil {
		return err
	}
	head := make([]byte, len(magic))
	if _, err := j.mu.file.ReadAt(head, 0); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	if of, ok := strings.CutPrefix(string(head), magicName); ok && string(head) != magic {
		if n, err := strconv.ParseUint(strings.TrimSuffix(of, "\n"), 10, 32); err == nil {
			return binio.CheckVersion("", "journal of an import", n, version)
		}
	}
	if string(head) != magic {
		return errors.New("the file is not a journal of an import")
	}
	r := bufio.NewReader(io.NewSectionReader(j.mu.file, int64(len(magic)), size-int64(len(magic))))
	whole := true
	for first := true; ; first = false {
		line, err := r.ReadBytes('\n')
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		text, refused, ok := parseLine(line)
		switch {
		case first && !ok:
			return errors.New("its second line is damaged, so it does not say which import it belongs to")
		case first && text != what:
			return fmt.Errorf("it belongs to another import (%s), and this one is %s; name another file", text, what)
		case !first && ok:
			j.mu.done[text] = refused
		}
		if err != nil {
			whole = len(line) == 0
			break
		}
	}
	j.mu.size = size
	if whole {
		return nil
	}
	// The next line must not continue the torn one.
	_, err = j.mu.file.WriteAt([]byte{'\n'}, size)
	j.mu.size++
	return err
}

// appendLine appends the line of a text, and of what was refused.
func appendLine(dst []byte, text string, refused Refused) []byte {
	line := strconv.AppendQuote(nil, text)
	if refused.Count > 0 {
		line = strconv.AppendInt(append(line, ' '), refused.Count, 10)
		for _, r := range refused.Reasons {
			line = strconv.AppendQuote(append(line, ' '), r)
		}
	}
	return fmt.Appendf(dst, "%08x %s\n", binio.Checksum(line), line)
}

// parseLine returns what a whole line says.
func parseLine(line []byte) (text string, refused Refused, ok bool) {
	sum, rest, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
	n, err := strconv.ParseUint(sum, 16, 32)
	if err != nil || uint32(n) != binio.Checksum([]byte(rest)) {
		return "", Refused{}, false
	}
	quoted := func() (text string) {
		var prefix string
		if prefix, err = strconv.QuotedPrefix(rest); err == nil {
			text, err = strconv.Unquote(prefix)
			rest = strings.TrimPrefix(rest[len(prefix):], " ")
		}
		return text
	}
	if text = quoted(); err != nil || rest == "" {
		return text, Refused{}, err == nil
	}
	var count string
	count, rest, _ = strings.Cut(rest, " ")
	if refused.Count, err = strconv.ParseInt(count, 10, 64); err != nil {
		return "", Refused{}, false
	}
	for rest != "" && err == nil {
		refused.Reasons = append(refused.Reasons, quoted())
	}
	return text, refused, err == nil
}

// Done reports whether a part is finished.
func (j *Journal) Done(part string) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	_, ok := j.mu.done[part]
	return ok
}

// Refused returns what was refused of a part that is finished.
func (j *Journal) Refused(part string) Refused {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.mu.done[part]
}

// Len returns the number of finished parts.
func (j *Journal) Len() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return len(j.mu.done)
}

// Finish records that everything of a part is durable at the target, but for what was
// refused. After an error it always fails, because the state of the file is unknown.
func (j *Journal) Finish(part string, refused Refused) error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.mu.err != nil {
		return j.mu.err
	}
	if _, ok := j.mu.done[part]; ok {
		return nil
	}
	line := appendLine(nil, part, refused)
	_, err := j.mu.file.WriteAt(line, j.mu.size)
	if err == nil {
		err = j.mu.file.SyncData()
	}
	if err != nil {
		j.mu.err = fmt.Errorf("write journal %s: %w", j.name, err)
		return j.mu.err
	}
	j.mu.size += int64(len(line))
	j.mu.done[part] = refused
	return nil
}

// Close closes the file, which stays.
func (j *Journal) Close() error { return j.mu.file.Close() }

// Remove closes the file and removes it, after all parts are finished.
func (j *Journal) Remove() error {
	err := j.Close()
	if err == nil {
		err = j.fs.Remove(j.name)
	}
	if err == nil {
		err = j.fs.SyncDir(path.Dir(j.name))
	}
	if err != nil {
		return fmt.Errorf("remove journal: %w", err)
	}
	return nil
}
