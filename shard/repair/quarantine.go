package repair

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path"
	"slices"
	"strings"
	"sync/atomic"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// QuarantineDir is the directory in a shard's directory to which damaged files
// are moved, each with a text file that says why. The server never reads them
// as data and never removes them; an operator who has dealt with the damage
// removes the directory.
const QuarantineDir = "quarantine"

const reasonSuffix = ".reason"

// Loss is what a damaged file has taken with it that cannot be rebuilt.
type Loss string

// The losses that there are.
const (
	LossNone    Loss = "nothing"
	LossPoints  Loss = "points"  // points are missing from answers
	LossDeletes Loss = "deletes" // points that were deleted may be in answers
	LossNewest  Loss = "newest"  // both: the files are an older copy
	LossSeries  Loss = "series"  // series without rows in files may be missing, and the highest id
)

// Rows reports whether answers lack points, or have some that were deleted.
func (l Loss) Rows() bool { return l != LossNone && l != LossSeries }

// lossPrefix begins the line of a reason file that names the loss, idPrefix the last one,
// with an id that no other loss of any node has.
const (
	lossPrefix = "Lost: "
	idPrefix   = "Id: "
)

// Quarantined is a file or directory in quarantine.
type Quarantined struct {
	Path   string
	Reason string // what was wrong with it, with the offset
	Text   string // the whole reason, on one line
	Loss   Loss
	ID     string // of the loss; the file's name if the reason has none
	Gone   bool   // there was nothing to move: the reason is all there is
}

// Quarantine is the quarantine of a directory, as it was read last. It is safe
// for concurrent use.
type Quarantine struct {
	fs     vfs.FS
	dir    string // that has the quarantine
	logger *slog.Logger
	found  atomic.Pointer[[]Quarantined]
}

// NewQuarantine returns the quarantine of dir. It is empty until Read.
func NewQuarantine(fsys vfs.FS, dir string, logger *slog.Logger) *Quarantine {
	return &Quarantine{fs: fsys, dir: dir, logger: logger}
}

// List returns what Read has found.
func (q *Quarantine) List() []Quarantined {
	if found := q.found.Load(); found != nil {
		return *found
	}
	return nil
}

// Read reads the quarantine again: an operator may have removed files.
func (q *Quarantine) Read() error {
	found, err := q.read()
	if err != nil {
		return fmt.Errorf("read quarantine of %s: %w", q.dir, err)
	}
	q.found.Store(&found)
	return nil
}

func (q *Quarantine) read() (found []Quarantined, err error) {
	in := q.dir + "/" + QuarantineDir
	names, err := q.fs.List(in)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, name := range names {
		base, ok := strings.CutSuffix(name, reasonSuffix)
		if !ok {
			continue
		}
		text, err := vfs.ReadFile(q.fs, in+"/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			text = []byte(err.Error())
		}
		f := Quarantined{Path: in + "/" + base, Loss: LossNone, ID: base, Gone: !slices.Contains(names, base)}
		if strings.Contains(base, ".tsm") {
			f.Loss = LossPoints
		}
		lines := strings.Split(strings.TrimSuffix(string(text), "\n"), "\n")
		if id, ok := strings.CutPrefix(lines[len(lines)-1], idPrefix); ok {
			f.ID, lines = id, lines[:len(lines)-1]
		}
		f.Reason, f.Text = lines[0], strings.Join(strings.Fields(strings.Join(lines, "\n")), " ")
		for _, line := range lines {
			if loss, ok := strings.CutPrefix(line, lossPrefix); ok {
				f.Loss = Loss(loss)
			}
		}
		found = append(found, f)
	}
	return found, nil
}

// SetAside moves a file or a directory to quarantine, with a text that says why
// it is there and what that means for the answers (effect). If the file does not
// exist, SetAside writes only the text.
func (q *Quarantine) SetAside(name string, why error, loss Loss, effect string) error {
	return q.add("moved to quarantine", name, why, loss, effect, func(from, to string) error {
		if err := q.fs.Rename(from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Note is SetAside without a file to move: it writes only the text.
func (q *Quarantine) Note(name string, why error, loss Loss, effect string) error {
	return q.add("damage noted in quarantine", name, why, loss, effect, func(string, string) error { return nil })
}

// Copy is SetAside for a file that stays in use: it copies the file.
func (q *Quarantine) Copy(name string, why error, loss Loss, effect string) error {
	return q.add("copied to quarantine", name, why, loss, effect, func(from, to string) error {
		b, err := vfs.ReadFile(q.fs, from)
		if err != nil {
			return err
		}
		return vfs.WriteFileAtomic(q.fs, path.Dir(to), to, b)
	})
}

// Keep is Copy for a file that nobody changes any more: it gets a second name. A file that
// is gone has only the text.
func (q *Quarantine) Keep(name string, why error, effect string) error {
	return q.add("kept in quarantine", name, why, LossNone, effect, func(from, to string) error {
		if err := vfs.Link(q.fs, from, to); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return nil
	})
}

// Settle says of losses that they are none any more, and why. The files stay.
func (q *Quarantine) Settle(losses []Quarantined, how string) error {
	for _, l := range losses {
		if l.Loss == LossNone {
			continue
		}
		text := fmt.Appendf(nil, "%s\n%s\n%s%s\n", l.Text, how, lossPrefix, LossNone)
		if err := vfs.WriteFileAtomic(q.fs, path.Dir(l.Path), l.Path+reasonSuffix, text); err != nil {
			return fmt.Errorf("settle %s: %w", l.Path, err)
		}
		q.logger.Info("loss settled", "path", l.Path, "how", how)
	}
	return q.Read()
}

// add logs what it has done as did.
func (q *Quarantine) add(did, name string, why error, loss Loss, effect string, put func(from, to string) error) error {
	from, in := q.dir+"/"+name, q.dir+"/"+QuarantineDir
	to, err := q.freeName(in, path.Base(name))
	if err == nil {
		err = vfs.WriteFileAtomic(q.fs, in, to+reasonSuffix, fmt.Appendf(nil, "%v\n%s\n%s%s\n%s%s\n", why, effect, lossPrefix, loss, idPrefix, rand.Text()))
	}
	if err == nil {
		err = put(from, to)
	}
	if err == nil {
		err = errors.Join(q.fs.SyncDir(in), q.fs.SyncDir(q.dir))
	}
	if err != nil {
		return fmt.Errorf("quarantine %s: %w", from, err)
	}
	offset := int64(-1)
	var c *binio.CorruptError
	if errors.As(why, &c) {
		offset = c.Offset
	}
	q.logger.Error(did, "path", from, "offset", offset, "err", why, "quarantine", to, "effect", effect)
	return q.Read()
}

// freeName makes the quarantine and returns a path in it that is not in use.
func (q *Quarantine) freeName(in, name string) (string, error) {
	err := q.fs.MkdirAll(in)
	to := in + "/" + name
	for n := 1; err == nil; n++ {
		if _, err = q.fs.Stat(to + reasonSuffix); err == nil {
			to = fmt.Sprintf("%s/%s.%d", in, name, n)
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return to, err
}
