package shard

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/model/scan"
	"tsdbd/tsi"
	"tsdbd/tsm"
)

// QuarantineDir is the directory in a shard's directory to which damaged files
// are moved, each with a text file that says why. Nothing in it is ever read
// as data or removed; an operator who has dealt with it removes it.
const QuarantineDir = "quarantine"

const reasonSuffix = ".reason"

// Loss is what a damaged file has taken with it that could not be made anew.
type Loss string

// The losses that there are.
const (
	LossNone    Loss = "nothing"
	LossPoints  Loss = "points"  // points are missing from answers
	LossDeletes Loss = "deletes" // points that were deleted may be in answers
)

// lossPrefix begins the line of a reason file that tells the loss.
const lossPrefix = "Lost: "

// Quarantined is a file or directory in quarantine.
type Quarantined struct {
	Path   string
	Reason string // what was wrong with it, with the offset
	Loss   Loss
	Gone   bool // there was nothing to move: the reason is all there is
}

// Quarantine returns the files that are in quarantine.
func (s *Shard) Quarantine() []Quarantined {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.mu.quarantined
}

// Losses returns what damage has taken from the shard's rows.
func (v *View) Losses() (out []scan.Loss) {
	for _, q := range v.shard.Quarantine() {
		if q.Loss == LossPoints || q.Loss == LossDeletes {
			out = append(out, scan.Loss{Shard: v.shard.id, Range: v.shard.times, Path: q.Path, Gone: q.Gone, Deletes: q.Loss == LossDeletes})
		}
	}
	return out
}

// isDamage tells damage of a file, which quarantine is for, from an error of
// the disk or of a newer format, at which the shard must not change anything.
func isDamage(err error) bool {
	return errors.Is(err, binio.ErrCorrupt) || errors.Is(err, fs.ErrNotExist)
}

// setAside moves a damaged file to the shard's quarantine. effect says what that
// means for the answers.
func (s *Shard) setAside(name string, why error, loss Loss, effect string) error {
	q, err := SetAside(s.fs, s.dir, name, why, loss, effect)
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.mu.quarantined = append(slices.Clone(s.mu.quarantined), q)
	s.mu.Unlock()
	offset := int64(-1)
	var c *binio.CorruptError
	if errors.As(why, &c) {
		offset = c.Offset
	}
	s.logger.Error("damaged file set aside", "shard", s.id, "path", s.path(name), "offset", offset, "err", why, "quarantine", q.Path, "effect", effect)
	return nil
}

// ListQuarantine reads the quarantine again: an operator may have dealt with
// it.
func (s *Shard) ListQuarantine() error {
	found, err := ReadQuarantine(s.fs, s.dir)
	if err != nil {
		return fmt.Errorf("quarantine of shard %d: %w", s.id, err)
	}
	s.mu.Lock()
	s.mu.quarantined = found
	s.mu.Unlock()
	return nil
}

// SetAside moves a file or a directory of dir to dir's quarantine, with a text
// that tells why it is there and what that means for the answers. Of a file that
// does not exist only the text is made.
func SetAside(fsys vfs.FS, dir, name string, why error, loss Loss, effect string) (Quarantined, error) {
	from, in := dir+"/"+name, dir+"/"+QuarantineDir
	q, err := setAside(fsys, from, in, name, fmt.Sprintf("%v\n%s\n%s%s\n", why, effect, lossPrefix, loss))
	if err == nil {
		err = errors.Join(fsys.SyncDir(in), fsys.SyncDir(dir))
	}
	if err != nil {
		return q, fmt.Errorf("quarantine %s: %w", from, err)
	}
	q.Reason, q.Loss = why.Error(), loss
	return q, nil
}

func setAside(fsys vfs.FS, from, in, name, text string) (q Quarantined, err error) {
	if err := fsys.MkdirAll(in); err != nil {
		return q, err
	}
	to := name
	for n := 1; ; n++ {
		_, err := fsys.Stat(in + "/" + to + reasonSuffix)
		if errors.Is(err, fs.ErrNotExist) {
			break
		}
		if err != nil {
			return q, err
		}
		to = fmt.Sprintf("%s.%d", name, n)
	}
	q.Path = in + "/" + to
	if err := vfs.WriteFileAtomic(fsys, in, q.Path+reasonSuffix, []byte(text)); err != nil {
		return q, err
	}
	err = fsys.Rename(from, q.Path)
	if errors.Is(err, fs.ErrNotExist) {
		q.Gone, err = true, nil
	}
	return q, err
}

// ReadQuarantine lists what is in the quarantine of dir.
func ReadQuarantine(fsys vfs.FS, dir string) ([]Quarantined, error) {
	in := dir + "/" + QuarantineDir
	names, err := fsys.List(in)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var found []Quarantined
	for _, name := range names {
		base, ok := strings.CutSuffix(name, reasonSuffix)
		if !ok {
			continue
		}
		text, err := vfs.ReadFile(fsys, in+"/"+name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			text = []byte(err.Error())
		}
		q := Quarantined{Path: in + "/" + base, Loss: LossNone, Gone: !slices.Contains(names, base)}
		if strings.Contains(base, ".tsm") {
			q.Loss = LossPoints
		}
		lines := strings.Split(string(text), "\n")
		q.Reason = lines[0]
		for _, line := range lines {
			if loss, ok := strings.CutPrefix(line, lossPrefix); ok {
				q.Loss = Loss(loss)
			}
		}
		found = append(found, q)
	}
	return found, nil
}

// openFiles opens the TSM files that m names. Damaged ones go to quarantine
// and out of m; changed tells that there were any.
func (s *Shard) openFiles(m *manifest) (files []*file, changed bool, err error) {
	defer func() {
		if err != nil {
			for _, f := range files {
				_ = f.reader.Release()
			}
		}
	}()
	kept := m.tsm[:0:0]
	for _, rec := range m.tsm {
		name := tsmName(rec.number)
		r, err := tsm.Open(s.fs, s.path(name))
		if err == nil {
			if i := r.Info(); i.Checksum != rec.checksum || i.Size != rec.size {
				err = errors.Join(binio.Corruptf(s.path(name), 0, "this is another file than the manifest names"), r.Release())
			}
		}
		if err == nil {
			files = append(files, &file{fileRecord: rec, reader: r})
			kept = append(kept, rec)
			continue
		}
		if !isDamage(err) {
			return files, false, fmt.Errorf("open shard %d: %w", s.id, err)
		}
		effect := fmt.Sprintf("The rows of the log's entries %d to %d that this file held are missing from answers of shard %d.", rec.minSequence, rec.maxSequence, s.id)
		if err := s.setAside(name, err, LossPoints, effect); err != nil {
			return files, false, err
		}
		changed = true
	}
	m.tsm = kept
	return files, changed, nil
}

// rebuildManifest makes the manifest anew from the TSM files in the directory,
// which know their sequences. Of two of which one holds the other's sequences
// the wider, newer one counts: it was merged from the other. It may be one of
// several that split the series: then the last of them must be there, too.
func (s *Shard) rebuildManifest(why, copyWhy error) (*manifest, error) {
	effect := fmt.Sprintf("The manifest of shard %d was made anew from its TSM files. Tombstones are lost: rows that were deleted and not yet merged away are back, unless the log still has the delete.", s.id)
	if err := s.setAside(manifestName, why, LossDeletes, effect); err != nil {
		return nil, err
	}
	if !errors.Is(copyWhy, fs.ErrNotExist) {
		if err := s.setAside(manifestCopy, copyWhy, LossDeletes, effect); err != nil {
			return nil, err
		}
	}
	names, err := s.fs.List(s.dir)
	if err != nil {
		return nil, fmt.Errorf("open shard %d: %w", s.id, err)
	}
	m := &manifest{shard: s.id, lineage: s.lineage, next: 1, removed: roaring.New()}
	var found []keyRange
	for _, name := range names {
		base, ext, _ := strings.Cut(name, ".")
		number, perr := strconv.ParseUint(base, 10, 64)
		if perr != nil {
			continue
		}
		m.next = max(m.next, number+1)
		if ext != "tsm" || tsmName(number) != name {
			continue
		}
		r, err := tsm.Open(s.fs, s.path(name))
		if err != nil {
			if !isDamage(err) {
				return nil, fmt.Errorf("open shard %d: %w", s.id, err)
			}
			if err := s.setAside(name, err, LossPoints, fmt.Sprintf("Found while the manifest of shard %d was made anew: its rows are missing from answers if it counted.", s.id)); err != nil {
				return nil, err
			}
			continue
		}
		i := r.Info()
		found = append(found, keysOf(r, fileRecord{
			number: number, size: i.Size, checksum: i.Checksum,
			minSequence: i.MinSequence, maxSequence: i.MaxSequence, level: i.Level,
		}))
		if err := r.Release(); err != nil {
			return nil, fmt.Errorf("open shard %d: %w", s.id, err)
		}
	}
	m.tsm = living(found)
	for _, f := range m.tsm {
		m.flushed = max(m.flushed, f.maxSequence)
	}
	return m, nil
}

// keyRange is a file with the keys of its first and last series.
type keyRange struct {
	fileRecord
	first, last string
	known       bool
}

func keysOf(r *tsm.Reader, rec fileRecord) keyRange {
	k := keyRange{fileRecord: rec}
	if r.Len() == 0 {
		return k
	}
	var err, lerr error
	k.first, err = r.Key(0)
	k.last, lerr = r.Key(r.Len() - 1)
	k.known = err == nil && lerr == nil
	return k
}

// living returns those of the files that count, in the order of a file set:
// not those that a merge has read whose result is there.
func living(found []keyRange) []fileRecord {
	// Wide before narrow, so that a merge's result comes before what it read;
	// of equal ranges the newest first, then what splits the series with it.
	slices.SortFunc(found, func(a, b keyRange) int {
		return cmp.Or(cmp.Compare(a.minSequence, b.minSequence), cmp.Compare(b.maxSequence, a.maxSequence), cmp.Compare(b.number, a.number))
	})
	var out []keyRange
	for _, f := range found {
		same, counts, wider, last := false, true, false, ""
		for _, g := range out {
			switch {
			case g.minSequence == f.minSequence && g.maxSequence == f.maxSequence:
				same = true
				if !f.known || !g.known || f.first <= g.last && g.first <= f.last {
					counts = false // written anew as g
				}
			case g.minSequence <= f.minSequence && g.maxSequence >= f.maxSequence:
				wider = true
				if last = max(last, g.last); !g.known || !f.known {
					counts = false
				}
			}
		}
		if same && !counts {
			continue
		}
		// The files of a merge are finished in the order of keys: without the
		// last of them they are a merge that was cut off.
		if wider && (!counts || last >= f.last) {
			continue
		}
		out = append(out, f)
	}
	// What is older comes first where a merge that was cut off is wider.
	slices.SortStableFunc(out, func(a, b keyRange) int { return cmp.Compare(a.maxSequence, b.maxSequence) })
	records := make([]fileRecord, len(out))
	for i, f := range out {
		records[i] = f.fileRecord
	}
	return records
}

// openIndex opens the TSI files that m names. When one is damaged, or the
// manifest was lost, the index is made anew from the TSM files.
func (s *Shard) openIndex(m *manifest, files []*file, lost bool) (_ *tsi.Index, changed bool, err error) {
	var opened []*tsi.File
	release := func() {
		for _, f := range opened {
			_ = f.Release()
		}
		opened = nil
	}
	for _, rec := range m.tsi {
		name := tsiName(rec.number)
		f, err := tsi.OpenFile(s.fs, s.path(name))
		if err == nil {
			opened = append(opened, f)
			if i := f.Info(); i.Bytes == rec.size {
				continue
			}
			err = binio.Corruptf(s.path(name), 0, "this is another file than the manifest names")
		}
		if !isDamage(err) {
			release()
			return nil, false, fmt.Errorf("open shard %d: %w", s.id, err)
		}
		if err := s.setAside(name, err, LossNone, fmt.Sprintf("The index of shard %d was made anew from its TSM files: no series is missing.", s.id)); err != nil {
			release()
			return nil, false, err
		}
		lost = true
	}
	if !lost {
		index, err := s.newIndex(opened, m.removed)
		if err == nil {
			return index, false, nil
		}
		var c *binio.CorruptError
		if !errors.As(err, &c) {
			release()
			return nil, false, err
		}
		name := c.Path[strings.LastIndex(c.Path, "/")+1:]
		if err := s.setAside(name, err, LossNone, fmt.Sprintf("The index of shard %d was made anew from its TSM files: no series is missing.", s.id)); err != nil {
			release()
			return nil, false, err
		}
	}
	release()
	set := newFileSet(files, m.tombstones)
	v := &View{shard: s, set: set, masks: set.allMasks()}
	defer set.release()
	rec, err := s.rebuildIndex(v, m.next)
	if err != nil {
		return nil, false, err
	}
	m.next++
	m.tsi, m.removed = nil, roaring.New()
	if rec != nil {
		m.tsi = []fileRecord{*rec}
		if err := s.fs.SyncDir(s.dir); err != nil {
			return nil, false, fmt.Errorf("open shard %d: %w", s.id, err)
		}
		f, err := tsi.OpenFile(s.fs, s.path(tsiName(rec.number)))
		if err != nil {
			return nil, false, fmt.Errorf("open shard %d: %w", s.id, err)
		}
		opened = []*tsi.File{f}
	}
	index, err := s.newIndex(opened, m.removed)
	if err != nil {
		release()
	}
	return index, true, err
}

func (s *Shard) newIndex(files []*tsi.File, removed *roaring.Bitmap) (*tsi.Index, error) {
	x, err := tsi.NewIndex(tsi.IndexOptions{Files: files, Removed: removed, Keys: s.series.Keys, Logger: s.logger})
	if err != nil {
		return nil, fmt.Errorf("open shard %d: %w", s.id, err)
	}
	return x, nil
}
