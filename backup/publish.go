package backup

import (
	"context"
	"errors"
	"fmt"
	"io"

	"tsdbd/exchange"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/store"
)

// Publish puts the objects of a set into a store, and returns the manifest of the set.
// Nothing is put of have, and of files whose bodies are in the store already. The caller
// keeps others from removing objects of the store.
func Publish(ctx context.Context, set *store.BackupSet, to object.Store, fsys vfs.FS, have map[string]bool) (*Manifest, error) {
	places := map[string]place{}
	m, err := describe(&exchange.Filter{Range: model.AllTime}, set, places, false, true)
	if err != nil {
		return nil, err
	}
	for _, o := range m.objects() {
		p := places[o.Name]
		if have[o.Name] || p.cold {
			continue
		}
		if err := publish(ctx, to, fsys, o, p); err != nil {
			return nil, fmt.Errorf("publish object %s, %s: %w", o.Name, m.owner(o.Name), err)
		}
	}
	return m, nil
}

// publish puts one object, unless it is there.
func publish(ctx context.Context, to object.Store, fsys vfs.FS, o Object, p place) error {
	info, err := to.Stat(ctx, key(o))
	if err == nil && info.Size == o.Size {
		return nil
	}
	if err == nil {
		err = to.Delete(ctx, key(o)) // it is damaged: equal names are equal content
	}
	if err != nil && !errors.Is(err, object.ErrNotFound) {
		return err
	}
	c := object.Content{FS: fsys, Path: p.path, Keep: true}
	if p.file != nil {
		c = object.Content{Bytes: make([]byte, p.size)}
		if _, err := io.ReadFull(io.NewSectionReader(p.file, p.offset, p.size), c.Bytes); err != nil {
			return err
		}
	} else if err := CheckContent(ctx, fsys, p.path, o); err != nil {
		return err
	}
	if err := to.Put(ctx, key(o), c); err != nil && !errors.Is(err, object.ErrExists) {
		return err
	}
	return nil
}

// Names returns the names of the objects that the backup needs.
func (m *Manifest) Names() []string {
	var names []string
	for _, o := range m.objects() {
		names = append(names, o.Name)
	}
	return names
}
