package series

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/script"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/model"
)

// TestScripts runs the stories of testdata: which ids keys get, and what of them a
// crash, damage or a repair leaves. -rewrite writes the answers.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		fs := newFS()
		s := &story{t: t, fs: fs, f: openSeries(t, fs, Options{IndexTail: 2}), kept: map[string][]byte{}}
		return s.run
	})
}

type story struct {
	t  *testing.T
	fs *vfstest.FS
	f  *File

	kept map[string][]byte // files by name
}

func (s *story) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// ids reads "1 2" and "3-5".
func (s *story) ids(args []string) (ids []model.SeriesID) {
	for _, a := range args {
		first, last, ok := strings.Cut(a, "-")
		if !ok {
			last = first
		}
		from, err := strconv.Atoi(first)
		s.must(err)
		to, err := strconv.Atoi(last)
		s.must(err)
		for id := from; id <= to; id++ {
			ids = append(ids, model.SeriesID(id))
		}
	}
	return ids
}

func (s *story) run(c script.Command) (lines []string) {
	switch c.Name {
	case "claim": // keys: their ids
		ids := make([]model.SeriesID, len(c.Input))
		s.must(s.f.Claim(c.Input, ids))
		for i, k := range c.Input {
			lines = append(lines, fmt.Sprintf("%d %s", ids[i], k))
		}
	case "confirm":
		s.f.Confirm(s.ids(c.Args))
	case "drop-claims":
		s.f.DropClaims()
	case "sync":
		s.must(s.f.Sync())
	case "reserve":
		s.f.Reserve(uint64(s.ids(c.Args)[0]))
	case "restore": // id key
		if err := s.f.Restore(s.ids(c.Args[:1])[0], c.Args[1]); err != nil {
			lines = append(lines, reason(err))
		}
	case "rewrite":
		s.must(s.f.Rewrite(false))
	case "close":
		s.must(s.f.Close())
		return s.reopen(s.fs)
	case "crash": // all that was not synced is lost
		return s.reopen(s.fs.Crash(newRand(s.t), 0))
	case "flip": // a byte of a file: name, offset, from the end if it is negative
		b := s.fs.Content("db/" + c.Args[0])
		at, err := strconv.Atoi(c.Args[1])
		s.must(err)
		if at < 0 {
			at += len(b)
		}
		b[at] ^= 0xff
		put(s.t, s.fs, "db/"+c.Args[0], b)
	case "keep": // a copy of a file
		s.kept[c.Args[0]] = s.fs.Content("db/" + c.Args[0])
	case "put-back": // the copy, while the database is closed
		s.f.Seal()
		s.must(s.f.Close())
		put(s.t, s.fs, "db/"+c.Args[0], s.kept[c.Args[0]])
		return s.reopen(s.fs)
	case "cut": // so many bytes off the end of a file
		s.f.Seal()
		s.must(s.f.Close())
		b := s.fs.Content("db/" + c.Args[0])
		n, err := strconv.Atoi(c.Args[1])
		s.must(err)
		put(s.t, s.fs, "db/"+c.Args[0], b[:len(b)-n])
		return s.reopen(s.fs)
	case "lose": // a file
		s.f.Seal()
		s.must(s.f.Close())
		s.must(s.fs.Remove("db/" + c.Args[0]))
		return s.reopen(s.fs)
	case "reopen":
		s.f.Seal()
		s.must(s.f.Close())
		return s.reopen(s.fs)
	case "verify":
		for _, err := range s.f.Verify(nil) {
			lines = append(lines, reason(err))
		}
	case "keys": // of ids
		for _, id := range s.ids(c.Args) {
			key, err := s.f.Key(id)
			if err != nil {
				key = reason(err)
			} else if got, ok := s.f.Lookup(key); !ok || got != id {
				s.t.Fatalf("Lookup(%q) is %d, %v", key, got, ok)
			}
			lines = append(lines, fmt.Sprintf("%d %s", id, key))
		}
	default:
		s.t.Fatalf("no command %s", c.Name)
	}
	return lines
}

func (s *story) reopen(fs *vfstest.FS) []string {
	s.fs, s.f = fs, openSeries(s.t, fs, Options{IndexTail: 2})
	lines := []string{fmt.Sprintf("%d series, next id %d", s.f.Len(), s.f.NextID())}
	if s.f.mu.index == nil {
		lines[0] += ", no index"
	}
	for _, err := range s.f.Damage() {
		lines = append(lines, reason(err))
	}
	return lines
}

// reason is what a caller branches on.
func reason(err error) string {
	var c *binio.CorruptError
	switch {
	case errors.As(err, &c):
		return "damaged: " + c.Reason
	case errors.Is(err, ErrNotFound):
		return "not found"
	case errors.Is(err, ErrConflict):
		return "conflict"
	}
	return err.Error()
}
