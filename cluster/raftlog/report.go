package raftlog

import (
	"fmt"
	"io"
	"path"
	"text/tabwriter"
	"time"

	"github.com/hashicorp/raft"

	"tsdbd/internal/vfs"
)

// Report is what a log holds, as text or as JSON.
type Report struct {
	Dir      string          `json:"dir"`
	First    uint64          `json:"first_index"` // 0: there are no entries
	Last     uint64          `json:"last_index"`
	Base     BaseReport      `json:"base"`
	Segments []SegmentReport `json:"segments"`
	Damage   []Damage        `json:"damage"`
	Batches  []BatchReport   `json:"batches,omitempty"`
}

// BaseReport is the base of a log.
type BaseReport struct {
	Index    uint64   `json:"index"`
	Term     uint64   `json:"term"`
	Sequence uint64   `json:"sequence"`
	Members  []string `json:"members"`
}

// SegmentReport is what a segment holds, deleted entries included.
type SegmentReport struct {
	Path        string `json:"path"`
	First       uint64 `json:"first_index"`
	Batches     int    `json:"batches"`
	Entries     int    `json:"entries"`
	Truncations int    `json:"truncations"`
	MinTerm     uint64 `json:"min_term"`
	MaxTerm     uint64 `json:"max_term"`
	Bytes       int64  `json:"bytes"`
	Used        int64  `json:"used_bytes"`
	Closed      bool   `json:"closed"`
	Torn        bool   `json:"torn"`
}

// BatchReport is a batch: of entries, or a truncation.
type BatchReport struct {
	Truncated *uint64       `json:"truncated_to,omitempty"`
	Entries   []EntryReport `json:"entries,omitempty"`
}

// EntryReport is an entry without its data.
type EntryReport struct {
	Index    uint64     `json:"index"`
	Term     uint64     `json:"term"`
	Type     string     `json:"type"`
	Bytes    int        `json:"bytes"`
	Appended *time.Time `json:"appended,omitempty"`
}

// Inspect reads the log in dir and changes nothing. all lists every batch. No Store may have
// the log open.
func Inspect(fsys vfs.FS, dir string, all bool) (*Report, error) {
	out := &Report{Dir: dir}
	terms := map[string][2]uint64{} // of segments
	r, err := read(fsys, dir, func(s *segmentInfo, entries []raft.Log, truncated uint64) {
		t := terms[s.Path]
		batch := BatchReport{}
		if len(entries) == 0 {
			batch.Truncated = &truncated
		}
		for i := range entries {
			l := &entries[i]
			if t[0] == 0 {
				t[0] = l.Term
			}
			t = [2]uint64{min(t[0], l.Term), max(t[1], l.Term)}
			if all {
				e := EntryReport{Index: l.Index, Term: l.Term, Type: l.Type.String(), Bytes: len(l.Data)}
				if !l.AppendedAt.IsZero() {
					at := l.AppendedAt.UTC()
					e.Appended = &at
				}
				batch.Entries = append(batch.Entries, e)
			}
		}
		terms[s.Path] = t
		if all {
			out.Batches = append(out.Batches, batch)
		}
	})
	if err != nil {
		return nil, err
	}
	if r.First < r.Next {
		out.First, out.Last = r.First, r.Next-1
	}
	out.Base = BaseReport{Index: r.Base.Index, Term: r.Base.Term, Sequence: r.Base.Sequence}
	for _, m := range r.Base.Configuration.Servers {
		out.Base.Members = append(out.Base.Members, fmt.Sprintf("%s %s %s", m.ID, m.Address, m.Suffrage))
	}
	for _, s := range r.Segments {
		t := terms[s.Path]
		out.Segments = append(out.Segments, SegmentReport{
			Path: s.Path, First: s.First, Batches: s.Batches, Entries: s.Entries, Truncations: s.Truncations,
			MinTerm: t[0], MaxTerm: t[1], Bytes: s.Bytes, Used: s.Used, Closed: s.Closed, Torn: s.Torn,
		})
	}
	out.Damage = r.Damage
	return out, nil
}

// WriteText writes the report for people.
func (r *Report) WriteText(w io.Writer) error {
	fmt.Fprintf(w, "entries %d-%d, base %d of term %d at sequence %d\n", r.First, r.Last, r.Base.Index, r.Base.Term, r.Base.Sequence)
	for _, m := range r.Base.Members {
		fmt.Fprintf(w, "member at the base: %s\n", m)
	}
	t := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(t, "segment\tfirst\tbatches\tentries\ttruncations\tterms\tused\tsize\tend")
	for _, s := range r.Segments {
		end := "open"
		switch {
		case s.Torn:
			end = "torn"
		case s.Closed:
			end = "closed"
		}
		fmt.Fprintf(t, "%s\t%d\t%d\t%d\t%d\t%d-%d\t%d\t%d\t%s\n", path.Base(s.Path), s.First, s.Batches, s.Entries, s.Truncations, s.MinTerm, s.MaxTerm, s.Used, s.Bytes, end)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, b := range r.Batches {
		if b.Truncated != nil {
			fmt.Fprintf(w, "truncated to %d\n", *b.Truncated)
		}
		for _, e := range b.Entries {
			at := ""
			if e.Appended != nil {
				at = ", appended " + e.Appended.Format(time.RFC3339Nano)
			}
			fmt.Fprintf(w, "%d term %d %s: %d bytes%s\n", e.Index, e.Term, e.Type, e.Bytes, at)
		}
	}
	for _, p := range r.Damage {
		if _, err := fmt.Fprintf(w, "damage: %s\n", p); err != nil {
			return err
		}
	}
	return nil
}
