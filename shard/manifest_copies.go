package shard

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/identity"
	"tsdbd/internal/vfs"
)

// A manifest is on disk twice, so that no single damaged file brings back what
// tombstones hide (W5). Every save has a higher edition than the one before, and
// of two copies the one with the higher edition counts. A change is made when
// one copy is renamed. Files and log entries are given up for it only when both
// are. Between the two a crash leaves two states that are both whole, and Open
// makes the older copy equal to the newer.

// save makes m the shard's state, durably: the commit point. s.writing is held,
// or nobody knows the shard yet.
func (s *Shard) save(m *manifest) error {
	s.edition++ // also after a failure: a copy may have it
	m.edition = s.edition
	return m.save(s.fs, s.dir)
}

// save writes both copies.
func (m *manifest) save(fsys vfs.FS, dir string) (err error) {
	b, err := m.encode()
	if err != nil {
		return err
	}
	names := []string{dir + "/" + manifestName, dir + "/" + manifestCopy}
	defer func() {
		if err != nil {
			for _, name := range names {
				_ = fsys.Remove(name + ".tmp")
			}
			err = fmt.Errorf("write manifest %s: %w", dir, err)
		}
	}()
	for _, name := range names {
		if err := vfs.WriteFileSynced(fsys, name+".tmp", b); err != nil {
			return err
		}
	}
	for _, name := range names {
		if err := fsys.Rename(name+".tmp", name); err != nil {
			return err
		}
	}
	return fsys.SyncDir(dir)
}

// readManifest reads one copy and its bytes.
func (s *Shard) readManifest(name string) (*manifest, []byte, error) {
	b, err := vfs.ReadFile(s.fs, s.path(name))
	if err != nil {
		return nil, nil, err
	}
	m, err := decodeManifest(s.path(name), b)
	switch {
	case err != nil:
	case m.lineage != s.lineage:
		err = identity.Foreignf(s.path(name), "the manifest belongs to data directory %s, not to %s", m.lineage, s.lineage)
	case m.shard != s.id:
		err = identity.Foreignf(s.path(name), "the manifest belongs to shard %d", m.shard)
	default:
		s.edition = max(s.edition, m.edition)
	}
	return m, b, err
}

// loadManifest reads the manifest. stale says that it must be saved again. lost
// says that both copies were damaged, or gone while there are TSM files, and
// that the manifest was rebuilt from these. A manifest of another shard or data
// directory is an identity.ErrForeign, unless the other copy is sound.
func (s *Shard) loadManifest() (m *manifest, stale, lost bool, err error) {
	first, b, ferr := s.readManifest(manifestName)
	second, c, serr := s.readManifest(manifestCopy)
	s.mu.saved = ferr == nil || serr == nil
	for _, err := range []error{ferr, serr} {
		if err != nil && !isDamage(err) && !(errors.Is(err, identity.ErrForeign) && s.mu.saved) {
			return nil, false, false, fmt.Errorf("open shard %d: %w", s.id, err)
		}
	}
	const whole = "The other copy of the manifest of shard %d was used: nothing is lost."
	switch gone := errors.Is(ferr, fs.ErrNotExist); {
	case ferr == nil && serr == nil:
		if second.edition > first.edition {
			first = second
		}
		return first, !bytes.Equal(b, c), false, nil
	case ferr == nil:
		if !errors.Is(serr, fs.ErrNotExist) {
			err = s.setAside(manifestCopy, serr, LossNone, fmt.Sprintf(whole, s.id))
		}
		return first, true, false, err
	case serr == nil:
		// The first manifest of a shard may be cut off between the two names.
		if !gone {
			err = s.setAside(manifestName, ferr, LossNone, fmt.Sprintf(whole, s.id))
		}
		return second, true, false, err
	case gone && errors.Is(serr, fs.ErrNotExist):
		// The first manifest is written before the first file: without any
		// the shard is new.
		names, lerr := s.fs.List(s.dir)
		if errors.Is(lerr, fs.ErrNotExist) || lerr == nil && !slices.ContainsFunc(names, func(n string) bool { return strings.HasSuffix(n, ".tsm") }) {
			if err := s.fs.MkdirAll(s.dir); err != nil {
				return nil, false, false, fmt.Errorf("make shard %d: %w", s.id, err)
			}
			if err := s.fs.SyncDir(path.Dir(s.dir)); err != nil {
				return nil, false, false, fmt.Errorf("make shard %d: %w", s.id, err)
			}
			m := &manifest{shard: s.id, lineage: s.lineage, next: 1, removed: roaring.New()}
			if !s.flushed {
				return m, false, false, nil
			}
			effect := fmt.Sprintf("The files of shard %d are gone. Its points are missing from answers, but for those that the log still has.", s.id)
			return m, true, false, s.setAside(manifestName, fmt.Errorf("the files of shard %d are gone: %w", s.id, ferr), LossPoints, effect)
		}
		if lerr != nil {
			return nil, false, false, fmt.Errorf("open shard %d: %w", s.id, lerr)
		}
	}
	m, err = s.rebuildManifest(ferr, serr)
	return m, true, true, err
}

// mayName reports whether a manifest on disk may name one of the files.
func (s *Shard) mayName(files []string) bool {
	for _, name := range []string{manifestName, manifestCopy} {
		m, _, err := s.readManifest(name)
		if err != nil && !errors.Is(err, fs.ErrNotExist) || err == nil && slices.ContainsFunc(files, m.names) {
			return true
		}
	}
	return false
}
