package scrub

import (
	"encoding/json"
	"errors"
	"io/fs"
	"path"
	"time"

	"tsdbd/internal/vfs"
)

// ProgressName is the name of the file in the data directory that says when each part was
// checked. It is JSON. Without it, all parts count as checked when the server first saw them.
const ProgressName = "scrub.json"

type progress struct {
	Checked map[string]time.Time `json:"checked"`
}

// load reads when each part was checked.
func (s *Service) load() {
	name := path.Join(s.opt.Dir, ProgressName)
	b, err := vfs.ReadFile(s.opt.FS, name)
	var p progress
	if err == nil {
		err = json.Unmarshal(b, &p)
	}
	if err != nil {
		if !errors.Is(err, fs.ErrNotExist) {
			s.opt.Logger.Warn("times of the last checks not read, all begin anew", "path", name, "err", err)
		}
		return
	}
	now := s.opt.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	for part, at := range p.Checked {
		if at.Before(now) { // or the clock was wrong
			s.mu.checked[part] = at
		}
	}
}

// saveSoon saves what the file lacks, if it was not written just now.
func (s *Service) saveSoon() {
	if s.fresh && s.opt.Now().Sub(s.saved) >= saveEvery {
		s.save()
	}
}

// save writes when each part was checked.
func (s *Service) save() {
	s.saved, s.fresh = s.opt.Now(), false
	s.mu.Lock()
	b, err := json.Marshal(progress{s.mu.checked})
	s.mu.Unlock()
	if err == nil {
		err = vfs.WriteFileAtomic(s.opt.FS, s.opt.Dir, path.Join(s.opt.Dir, ProgressName), b)
	}
	if err != nil {
		s.opt.Logger.Warn("times of the last checks not saved", "err", err)
	}
}
