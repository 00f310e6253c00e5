package block

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"tsdbd/model"
	"tsdbd/prom"
)

// metaName is the file that says what a block has.
const metaName = "meta.json"

// Block is a block on the disk.
type Block struct {
	Dir     string
	ID      string          // its ULID
	Range   model.TimeRange // in nanoseconds
	Series  int64
	Samples int64
	Bytes   int64 // of its files
}

// Directory is what List finds.
type Directory struct {
	Path   string
	Blocks []Block // in order of time
	// Notes say what of the directory is not read, and why.
	Notes []string
	Half  int // blocks that are not whole, which Notes name
}

// meta is the part of meta.json that is of use.
type meta struct {
	ULID    string `json:"ulid"`
	Version int    `json:"version"`
	MinTime int64  `json:"minTime"` // in milliseconds
	MaxTime int64  `json:"maxTime"` // the first that is not in the block
	Stats   struct {
		Samples int64 `json:"numSamples"`
		Series  int64 `json:"numSeries"`
	} `json:"stats"`
	Compaction struct {
		Deletable bool `json:"deletable"`
		Parents   []struct {
			ULID string `json:"ulid"`
		} `json:"parents"`
	} `json:"compaction"`
}

// List finds the blocks of a directory, which is a snapshot, the data directory of a
// server, or one block. It fails if there are none.
func List(dir string) (*Directory, error) {
	if _, err := os.Stat(filepath.Join(dir, metaName)); err == nil {
		b, _, err := open(dir)
		if err != nil {
			return nil, err
		}
		return &Directory{Path: dir, Blocks: []Block{b}}, nil
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	d, merged := &Directory{Path: dir}, map[string]bool{}
	for _, e := range entries {
		path := filepath.Join(dir, e.Name())
		switch name := e.Name(); {
		case !e.IsDir():
		case strings.HasSuffix(name, ".tmp-for-creation"), strings.HasSuffix(name, ".tmp-for-deletion"):
			d.note("%s is not whole: Prometheus was making or removing it", path)
		case name == "wal" || name == "chunks_head" || name == "wbl":
			if rest, err := os.ReadDir(path); err == nil && len(rest) > 0 {
				d.note("%s is not read: it has the newest samples, of up to three hours; a snapshot has them in a block", path)
			}
		default:
			if _, err := os.Stat(filepath.Join(path, metaName)); errors.Is(err, fs.ErrNotExist) {
				if _, err := os.Stat(filepath.Join(path, "index")); err == nil {
					d.note("%s has no %s: it is half a block", path, metaName)
					d.Half++
				}
				continue
			}
			b, m, err := open(path)
			if err != nil {
				return nil, err
			}
			for _, parent := range m.Compaction.Parents {
				merged[parent.ULID] = true
			}
			if m.Compaction.Deletable {
				merged[b.ID] = true
			}
			d.Blocks = append(d.Blocks, b)
		}
	}
	// What a compaction has read may still be there.
	d.Blocks = slices.DeleteFunc(d.Blocks, func(b Block) bool { return merged[b.ID] })
	if len(d.Blocks) == 0 {
		return nil, noBlocks(dir, d.Notes)
	}
	slices.SortFunc(d.Blocks, func(a, b Block) int {
		return cmp.Or(cmp.Compare(a.Range.Min, b.Range.Min), strings.Compare(a.ID, b.ID))
	})
	return d, nil
}

func (d *Directory) note(format string, args ...any) {
	d.Notes = append(d.Notes, fmt.Sprintf(format, args...))
}

// noBlocks says what a directory is that has no blocks.
func noBlocks(dir string, notes []string) error {
	has := func(name string) bool {
		_, err := os.Stat(filepath.Join(dir, name))
		return err == nil
	}
	switch {
	case len(notes) > 0:
		return fmt.Errorf("%s has no whole block: %s", dir, strings.Join(notes, "; "))
	case has("snapshots"), has("data") && has("indexdb"):
		return fmt.Errorf("%s has no block of Prometheus; it may be a directory of VictoriaMetrics, whose export tsdbd import -format vm reads", dir)
	}
	return fmt.Errorf("%s has no block of Prometheus: give the data directory of Prometheus, or better a snapshot of it", dir)
}

// open reads what a block says of itself and checks that its files are there.
func open(dir string) (Block, *meta, error) {
	name := filepath.Join(dir, metaName)
	text, err := os.ReadFile(name)
	if err != nil {
		return Block{}, nil, err
	}
	m := new(meta)
	if err := json.Unmarshal(text, m); err != nil {
		return Block{}, nil, fmt.Errorf("%s: %w", name, err)
	}
	switch {
	case m.ULID == "":
		return Block{}, nil, fmt.Errorf("%s is not that of a block", name)
	case m.Version != 1:
		return Block{}, nil, fmt.Errorf("%s: a block of version %d; versions other than 1 are not known", name, m.Version)
	case m.MaxTime < m.MinTime:
		return Block{}, nil, fmt.Errorf("%s: the times of the block end before they begin", name)
	}
	b := Block{
		Dir: dir, ID: m.ULID, Series: m.Stats.Series, Samples: m.Stats.Samples,
		Range: model.TimeRange{Min: prom.Nanoseconds(m.MinTime), Max: prom.Nanoseconds(m.MaxTime - 1)},
	}
	err = filepath.WalkDir(dir, func(_ string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		info, err := e.Info()
		if err == nil {
			b.Bytes += info.Size()
		}
		return err
	})
	return b, m, err
}
