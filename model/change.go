package model

import (
	"fmt"
	"slices"
	"strings"
)

// Change is what a move makes of the series of one measurement: another measurement,
// other tags, or another name of a field. A move has one of these parts.
type Change struct {
	Measurement string // whose series are changed
	To          string // the measurement that they belong to then, often the same

	Set         Tags     // these tags get these values; sorted by key
	Drop        []string // these tags go
	RenameTag   Rename
	RenameField Rename
}

// Rename gives a tag or a field another key. The zero Rename changes nothing.
type Rename struct{ From, To string }

// Fields reports whether the change renames a field, and so leaves all series as they
// are.
func (c *Change) Fields() bool { return c.RenameField != Rename{} }

// Tags applies the change to sorted tags and appends the result, sorted, to dst.
func (c *Change) Tags(dst, tags Tags) Tags {
	from := len(dst)
	for _, t := range tags {
		if slices.Contains(c.Drop, t.Key) || c.Set.Get(t.Key) != "" {
			continue
		}
		if c.RenameTag.From != "" && t.Key == c.RenameTag.From {
			t.Key = c.RenameTag.To
		}
		dst = append(dst, t)
	}
	dst = append(dst, c.Set...)
	dst[from:].Sort()
	return dst
}

// AppendKey appends the key that a series has after the change. tags is scratch
// memory, which is returned.
func (c *Change) AppendKey(dst []byte, key string, tags Tags) ([]byte, Tags) {
	_, tags = ParseSeriesKey(key, tags[:0])
	n := len(tags)
	tags = c.Tags(tags, tags)
	return AppendSeriesKey(dst, c.To, tags[n:]), tags
}

// String describes the change.
func (c *Change) String() string {
	parts := []string{fmt.Sprintf("%q", c.Measurement)}
	if c.To != c.Measurement {
		parts = append(parts, fmt.Sprintf("to %q", c.To))
	}
	for _, t := range c.Set {
		parts = append(parts, fmt.Sprintf("%q=%q", t.Key, t.Value))
	}
	for _, key := range c.Drop {
		parts = append(parts, fmt.Sprintf("drop %q", key))
	}
	for _, r := range []struct {
		what string
		Rename
	}{{"tag", c.RenameTag}, {"field", c.RenameField}} {
		if r.Rename != (Rename{}) {
			parts = append(parts, fmt.Sprintf("%s %q to %q", r.what, r.From, r.To))
		}
	}
	return strings.Join(parts, ", ")
}
