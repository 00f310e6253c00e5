package move

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/column"
)

// Check returns why a change is impossible for every series, or nil.
func Check(c *model.Change) error {
	tags := slices.Clone(c.Set)
	if c.RenameTag.To != "" {
		tags = append(tags, model.Tag{Key: c.RenameTag.To, Value: "x"})
	}
	tags.Sort()
	if reason := model.Unstorable(c.To, tags); reason != "" {
		return errors.New(reason)
	}
	if meta.Staged(c.To) {
		return errors.New(meta.StagedReason(c.To))
	}
	for _, key := range c.Drop {
		if c.Set.Get(key) != "" {
			return fmt.Errorf("tag %q is set and dropped", key)
		}
	}
	if c.Fields() {
		if reason := model.UnstorableField(c.RenameField.To); reason != "" {
			return fmt.Errorf("field %q of %q %s", c.RenameField.To, c.Measurement, reason)
		}
		if c.RenameField.To == "time" {
			return fmt.Errorf("invalid field name: input field %q on measurement %q is invalid", "time", c.Measurement)
		}
	}
	switch {
	case c.Fields() && c.RenameField.From == c.RenameField.To:
		return fmt.Errorf("field %q has this name", c.RenameField.To)
	case c.RenameTag != model.Rename{} && c.RenameTag.From == c.RenameTag.To:
		return fmt.Errorf("tag %q has this name", c.RenameTag.To)
	}
	return nil
}

// names is what the shards of a database know of a measurement.
type names struct {
	fields  map[string][]model.FieldType
	tags    map[string]bool
	longest int // field key
}

// add adds what some shards know.
func (n *names) add(shards []Shard, measurement string) error {
	if n.fields == nil {
		n.fields, n.tags = map[string][]model.FieldType{}, map[string]bool{}
	}
	for _, sh := range shards {
		for _, f := range sh.View.Fields(measurement) {
			if !slices.Contains(n.fields[f.Key], f.Type) {
				n.fields[f.Key] = append(n.fields[f.Key], f.Type)
			}
			n.longest = max(n.longest, len(f.Key))
		}
		keys, err := sh.View.TagKeys(measurement)
		if err != nil {
			return err
		}
		for _, key := range keys {
			n.tags[key] = true
		}
	}
	return nil
}

// ErrNotFound says that there is nothing of the name that a change is about.
var ErrNotFound = errors.New("not found")

// known is what is known of the measurements of a change.
type known struct{ from, to names }

// check returns why the change would make names ambiguous, or what it is about is not
// there. It adds what some shards know of the names.
func (k *known) check(c *model.Change, shards []Shard) error {
	n := &k.from
	if err := n.add(shards, c.Measurement); err != nil {
		return err
	}
	isField := func(key string) error {
		if n.fields[key] != nil {
			return fmt.Errorf("%q is a field of measurement %q and cannot be a tag as well", key, c.Measurement)
		}
		return nil
	}
	for _, t := range c.Set {
		if err := isField(t.Key); err != nil {
			return err
		}
	}
	switch {
	case c.Fields():
		switch from, to := c.RenameField.From, c.RenameField.To; {
		case n.fields[from] == nil:
			return fmt.Errorf("field %w: %s", ErrNotFound, from)
		case n.fields[to] != nil:
			return fmt.Errorf("measurement %q has a field %q already", c.Measurement, to)
		case n.tags[to]:
			return fmt.Errorf("%q is a tag of measurement %q and cannot be a field as well", to, c.Measurement)
		}
	case c.RenameTag != model.Rename{}:
		if !n.tags[c.RenameTag.From] {
			return fmt.Errorf("tag key %w: %s", ErrNotFound, c.RenameTag.From)
		}
		return isField(c.RenameTag.To)
	case c.To != c.Measurement:
		return k.checkTarget(c, shards)
	}
	return nil
}

// checkTarget compares the names of a measurement with those of the measurement that it
// is to become part of.
func (k *known) checkTarget(c *model.Change, shards []Shard) error {
	n, to := &k.from, &k.to
	if len(n.fields) == 0 {
		return fmt.Errorf("measurement %w: %s", ErrNotFound, c.Measurement)
	}
	if err := to.add(shards, c.To); err != nil {
		return err
	}
	ambiguous := func(fields map[string][]model.FieldType, of string, tags map[string]bool, in string) error {
		for _, key := range slices.Sorted(maps.Keys(fields)) {
			if tags[key] {
				return fmt.Errorf("%q is a field of measurement %q and a tag of measurement %q", key, of, in)
			}
		}
		return nil
	}
	if err := cmp.Or(ambiguous(n.fields, c.Measurement, to.tags, c.To), ambiguous(to.fields, c.To, n.tags, c.Measurement)); err != nil {
		return err
	}
	for _, sh := range shards {
		have := sh.View.Fields(c.To)
		for _, f := range sh.View.Fields(c.Measurement) {
			if i, ok := column.FindField(have, f.Key); ok && have[i].Type != f.Type {
				return fmt.Errorf("field type conflict in shard %d: field %q is type %s on measurement %q and type %s on measurement %q",
					sh.View.ID(), f.Key, f.Type, c.Measurement, have[i].Type, c.To)
			}
		}
	}
	return nil
}
