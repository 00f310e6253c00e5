package repair

import (
	"fmt"
	"log/slog"
	"slices"
	"strings"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
	"tsdbd/shard/manifest"
	"tsdbd/tsm"
)

// Leftover reports whether a file that the manifest does not name has a name
// that flushes, merges and changes of the manifest give: Open removes it, or sets
// it aside. It leaves all other files alone.
func Leftover(name string) bool {
	if name == manifest.Names[0]+".tmp" || name == manifest.Names[1]+".tmp" {
		return true
	}
	if _, ok := manifest.Number(name); !ok {
		return false
	}
	base, ext, _ := strings.Cut(name, ".")
	return ext == "tsm" || ext == "tsi" || manifest.IsTail(name) || strings.HasSuffix(ext, ".tmp") || slices.Contains(tsm.ScratchNames(base+".tsm"), name)
}

// Strays are the files in the directory of a shard that its manifest does not name.
type Strays struct {
	FS         vfs.FS
	Dir        string
	LogAfter   uint64 // the log has all entries of the shard with a higher sequence
	Quarantine *Quarantine
	Logger     *slog.Logger
}

// Remove removes what a crash left: files with our names that the manifest does not
// list, and temporary files. TSM files that keep names go to quarantine. incomplete says
// that files which m names are lost.
func (d *Strays) Remove(m *manifest.Manifest, incomplete bool) error {
	names, err := d.FS.List(d.Dir)
	if err != nil {
		return err
	}
	names = slices.DeleteFunc(names, func(name string) bool { return m.Has(name) || !Leftover(name) })
	if len(names) > 0 {
		// A server that was killed may have renamed the manifest and not synced
		// its name: a power cut would bring the one back that lists the strays.
		if err := d.FS.SyncDir(d.Dir); err != nil {
			return err
		}
	}
	for _, name := range names {
		path := d.Dir + "/" + name
		if strings.HasSuffix(name, ".tsm") || manifest.IsTail(name) {
			kept, err := d.keep(name, m, incomplete)
			if err != nil {
				return err
			}
			if kept {
				continue
			}
		}
		if err := d.FS.Remove(path); err != nil {
			return fmt.Errorf("remove stray %s: %w", path, err)
		}
		d.Logger.Info("stray file removed", "shard", m.Shard, "path", path)
	}
	return nil
}

// keep sets a TSM file that the manifest m does not name aside, unless it
// is certain that nothing is lost with it. A merge leaves files of sequences
// that m has in other files. A flush that was cut off leaves a file of entries
// that the log still has, or one that was not finished. Any other file was once
// in a manifest, newer than m, that somebody has replaced.
func (d *Strays) keep(name string, m *manifest.Manifest, incomplete bool) (kept bool, err error) {
	path := d.Dir + "/" + name
	r, err := open(d.FS, path)
	if err != nil {
		if binio.Damaged(err) {
			return false, nil
		}
		return false, err
	}
	i := r.Info()
	if err := r.Release(); err != nil {
		return false, err
	}
	merged := i.MaxSequence <= m.Flushed && !incomplete
	logged := i.MinSequence > m.Flushed && i.MinSequence > d.LogAfter
	if merged || logged {
		return false, nil
	}
	why := fmt.Errorf("no manifest names %s, which has rows of the log's entries %d to %d", path, i.MinSequence, i.MaxSequence)
	effect := fmt.Sprintf("The manifest of shard %d is older than this file. The rows of the file are missing from answers.", m.Shard)
	return true, d.Quarantine.SetAside(name, why, LossPoints, effect)
}
