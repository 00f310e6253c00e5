package inspect

import (
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
	"tsdbd/shard/moves"
	"tsdbd/wal"
	"tsdbd/wal/entry"
)

// WALReport is what a log holds.
type WALReport struct {
	Dir      string       `json:"dir"`
	Segments []WALSegment `json:"segments"`
	Damage   []Problem    `json:"damage"`
	Entries  []WALEntry   `json:"entries,omitempty"`
}

// WALSegment is one segment file.
type WALSegment struct {
	Path    string `json:"path"`
	Number  uint64 `json:"number"`
	Epoch   uint32 `json:"epoch"`
	First   uint64 `json:"first_sequence"`
	Last    uint64 `json:"last_sequence"`
	Entries int    `json:"entries"`
	Rows    int    `json:"rows"`
	Values  int    `json:"values"`
	Deletes int    `json:"deletes"`
	Bytes   int64  `json:"bytes"`
	Used    int64  `json:"used_bytes"`
	Sealed  bool   `json:"sealed"`
	Torn    int64  `json:"torn_bytes"`
}

// WALEntry is one entry's part for one shard.
type WALEntry struct {
	Sequence uint64 `json:"sequence"`
	Kind     string `json:"kind"` // write, delete, move or command
	Command  string `json:"command,omitempty"`
	Database uint32 `json:"database"`
	Shard    uint64 `json:"shard"`
	Rows     int    `json:"rows,omitempty"`
	Change   string `json:"change,omitempty"` // of a move
	Series   uint64 `json:"series,omitempty"` // of a delete or move
	Min      int64  `json:"min_time"`
	Max      int64  `json:"max_time"`
}

// WAL reads the log in a directory, or one segment of it. With entries, every
// entry is listed.
func WAL(fsys vfs.FS, name string, entries bool) (*WALReport, error) {
	dir, only := name, ""
	if strings.HasSuffix(name, ".wal") {
		dir, only = path.Dir(name), name
	}
	if _, err := fsys.Stat(name); err != nil {
		return nil, err
	}
	r := &WALReport{Dir: dir}
	count := map[string]*WALSegment{}
	infos, damage, err := wal.Inspect(fsys, dir, func(s *wal.SegmentInfo, e *entry.Entry) error {
		if only != "" && s.Path != only {
			return nil
		}
		c := count[s.Path]
		if c == nil {
			c = &WALSegment{}
			count[s.Path] = c
		}
		if len(e.Command) > 0 && entries {
			name := "unknown"
			if ch, err := meta.DecodeCommand(e.Command); err == nil {
				name = strings.TrimPrefix(fmt.Sprintf("%T", ch.Command), "meta.") // its fields may hold a password's hash
			}
			r.Entries = append(r.Entries, WALEntry{Sequence: e.Sequence, Kind: "command", Command: name})
		}
		for i := range e.Writes {
			w := &e.Writes[i]
			c.Rows += len(w.Rows)
			x := WALEntry{Sequence: e.Sequence, Kind: "write", Database: w.Database, Shard: w.Shard, Rows: len(w.Rows)}
			for j := range w.Rows {
				t := w.Rows[j].Time
				if j == 0 {
					x.Min, x.Max = t, t
				}
				x.Min, x.Max = min(x.Min, t), max(x.Max, t)
				c.Values += len(w.Rows[j].Layout.Fields)
			}
			if entries {
				r.Entries = append(r.Entries, x)
			}
		}
		for i := range e.Deletes {
			d := &e.Deletes[i]
			c.Deletes++
			if !entries {
				continue
			}
			x := WALEntry{Sequence: e.Sequence, Kind: "delete", Database: d.Database, Shard: d.Shard, Min: d.Range.Min, Max: d.Range.Max}
			set := roaring.New()
			if set.UnmarshalBinary(d.Series) == nil {
				x.Series = set.GetCardinality()
			}
			r.Entries = append(r.Entries, x)
		}
		if e.Move != nil && entries {
			return moved(e, &r.Entries)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, s := range infos {
		if only != "" && s.Path != only {
			continue
		}
		w := WALSegment{}
		if c := count[s.Path]; c != nil {
			w = *c
		}
		w.Path, w.Number, w.Epoch, w.First, w.Last = s.Path, s.Number, s.Epoch, s.First, s.Last
		w.Entries, w.Bytes, w.Used, w.Sealed, w.Torn = s.Entries, s.Bytes, s.End, s.Sealed, s.Torn
		r.Segments = append(r.Segments, w)
	}
	for _, d := range damage {
		if only == "" || d.Segment == only {
			r.Damage = append(r.Damage, walProblem(d))
		}
	}
	return r, nil
}

// moved appends the parts of a move to list.
func moved(e *entry.Entry, list *[]WALEntry) error {
	for i := range e.Move.Changes {
		c := &e.Move.Changes[i]
		m, err := moves.Decode(e.Sequence, c.Change)
		if err != nil {
			return err
		}
		for _, at := range c.Shards {
			x := WALEntry{Sequence: e.Sequence, Kind: "move", Change: m.Change.String(), Database: e.Move.Database, Shard: at.Shard}
			set := roaring.New()
			if set.UnmarshalBinary(at.Series) == nil {
				x.Series = set.GetCardinality()
			}
			*list = append(*list, x)
		}
	}
	return nil
}

// walProblem returns a damage of the log; a torn end is only a notice.
func walProblem(d wal.Damage) Problem {
	return Problem{Path: d.Segment, Offset: d.Offset, Bytes: d.Bytes, Reason: d.Reason, Notice: d.Torn}
}

func (r *WALReport) damage() []Problem { return r.Damage }

// WriteText writes the report for people.
func (r *WALReport) WriteText(w io.Writer) error {
	t := newTable(w, "segment", "epoch", "sequences", "entries", "rows", "values", "deletes", "used", "size", "end")
	for _, s := range r.Segments {
		end := "open"
		switch {
		case s.Sealed:
			end = "sealed"
		case s.Torn > 0:
			end = fmt.Sprintf("torn, %d bytes", s.Torn)
		}
		t.row(path.Base(s.Path), s.Epoch, fmt.Sprintf("%d-%d", s.First, s.Last), s.Entries, s.Rows, s.Values, s.Deletes, bytesText(s.Used), bytesText(s.Bytes), end)
	}
	if err := t.flush(); err != nil {
		return err
	}
	for _, e := range r.Entries {
		if e.Kind == "command" {
			fmt.Fprintf(w, "%d command %s\n", e.Sequence, e.Command)
			continue
		}
		if e.Kind == "move" {
			fmt.Fprintf(w, "%d move database %d shard %d: %d series, %s\n", e.Sequence, e.Database, e.Shard, e.Series, e.Change)
			continue
		}
		what := fmt.Sprintf("%d rows", e.Rows)
		if e.Kind == "delete" {
			what = fmt.Sprintf("%d series", e.Series)
		}
		fmt.Fprintf(w, "%d %s database %d shard %d: %s, %s to %s\n", e.Sequence, e.Kind, e.Database, e.Shard, what, timeText(e.Min), timeText(e.Max))
	}
	return writeProblems(w, r.Damage)
}
