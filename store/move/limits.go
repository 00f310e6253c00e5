package move

import (
	"fmt"

	"github.com/RoaringBitmap/roaring/v2"
)

// limits refuses a move by which a tag would have more values than it may and than it has.
// Series do not become more: each has one target and leaves all shards.
func (r *Request) limits() error {
	if r.Bounds.MaxValues <= 0 {
		return nil
	}
	brought, err := r.brought()
	if err != nil {
		return err
	}
	r.values = brought
	for key, values := range brought {
		before, after := map[string]bool{}, values
		for _, sh := range r.Shards {
			all, err := sh.View.Series(r.Change.To)
			if err != nil {
				return err
			}
			if err := add(before, sh, r.Change.To, key, all); err != nil {
				return err
			}
			if sh.moved != nil {
				all.AndNot(sh.moved)
			}
			if err := add(after, sh, r.Change.To, key, all); err != nil {
				return err
			}
		}
		if len(after) > len(before) {
			if err := r.limit(key, after); err != nil {
				return err
			}
		}
	}
	return nil
}

// limit returns why a tag cannot have as many values, or nil.
func (r *Request) limit(key string, values map[string]bool) error {
	if len(values) > r.Bounds.MaxValues {
		return fmt.Errorf("max-values-per-tag limit exceeded (%d/%d): measurement=%q tag=%q", len(values), r.Bounds.MaxValues, r.Change.To, key)
	}
	return nil
}

// brought returns the values that the moved series bring to tags, by key.
func (r *Request) brought() (map[string]map[string]bool, error) {
	c := r.Change
	brought := map[string]map[string]bool{}
	for _, t := range c.Set {
		brought[t.Key] = map[string]bool{t.Value: true}
	}
	for _, sh := range r.Shards {
		if sh.moved == nil {
			continue
		}
		as := map[string]string{}
		switch {
		case c.RenameTag.From != "":
			as[c.RenameTag.From] = c.RenameTag.To
		case c.To != c.Measurement:
			keys, err := sh.View.TagKeys(c.Measurement)
			if err != nil {
				return nil, err
			}
			for _, key := range keys {
				as[key] = key
			}
		}
		for from, to := range as {
			if brought[to] == nil {
				brought[to] = map[string]bool{}
			}
			if err := add(brought[to], sh, c.Measurement, from, sh.moved); err != nil {
				return nil, err
			}
		}
	}
	return brought, nil
}

// add adds the values of a tag that series of set have.
func add(to map[string]bool, sh Shard, measurement, key string, set *roaring.Bitmap) error {
	values, err := sh.View.TagValues(measurement, key, set)
	if err != nil {
		return fmt.Errorf("count the values of tag %s of %s: %w", key, measurement, err)
	}
	for _, value := range values {
		to[value] = true
	}
	return nil
}
