package backup

import (
	"context"
	"fmt"
	"io"

	"tsdbd/exchange"
	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/store"
)

// Publication is a set that is put into a store of objects. Cold files stay cold: their
// objects are there.
type Publication struct {
	Manifest *Manifest
	places   map[string]place
	fsys     vfs.FS
}

// Describe returns the publication of a set of files on fsys. It is valid as long as the set.
func Describe(set *store.BackupSet, fsys vfs.FS) (*Publication, error) {
	p := &Publication{places: map[string]place{}, fsys: fsys}
	var err error
	p.Manifest, err = describe(&exchange.Filter{Range: model.AllTime}, set, p.places, false, true)
	return p, err
}

// Put puts the objects that the store lacks, at the pace of a function that may be nil. It does
// not look for those of have.
func (p *Publication) Put(ctx context.Context, to object.Store, have map[string]bool, pace func(ctx context.Context, bytes int) error) error {
	for _, o := range p.Manifest.objects() {
		if have[o.Name] || p.places[o.Name].cold {
			continue
		}
		_, err := object.Ensure(ctx, to, key(o), o.Size, func() (object.Content, error) {
			c, err := p.content(ctx, o)
			c.Pace = pace
			return c, err
		})
		if err != nil {
			return fmt.Errorf("publish object %s, %s: %w", o.Name, p.Manifest.owner(o.Name), err)
		}
	}
	return nil
}

// content returns the content of an object, checked.
func (p *Publication) content(ctx context.Context, o Object) (object.Content, error) {
	at := p.places[o.Name]
	if at.file == nil {
		return object.Content{FS: p.fsys, Path: at.path, Keep: true}, CheckContent(ctx, p.fsys, at.path, o)
	}
	b := make([]byte, at.size) // a piece
	_, err := io.ReadFull(io.NewSectionReader(at.file, at.offset, at.size), b)
	return object.Content{Bytes: b}, err
}

// Names returns the names of the objects that the backup needs.
func (m *Manifest) Names() []string {
	var names []string
	for _, o := range m.objects() {
		names = append(names, o.Name)
	}
	return names
}
