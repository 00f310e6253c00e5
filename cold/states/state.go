package states

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"

	"tsdbd/backup"
	"tsdbd/cold/names"
	"tsdbd/internal/object"
)

// ID names a state. Later states are greater.
type ID struct{ Owner, Term, Number uint64 }

// String returns the name of the state.
func (i ID) String() string { return fmt.Sprintf("%016x-%016x-%016x", i.Owner, i.Term, i.Number) }

// Compare orders states by age.
func (i ID) Compare(j ID) int {
	return cmp.Or(cmp.Compare(i.Owner, j.Owner), cmp.Compare(i.Term, j.Term), cmp.Compare(i.Number, j.Number))
}

func (i ID) key() string { return path.Join(names.States, i.String()) }

// list returns the states, the newest last.
func list(ctx context.Context, s object.Store) (ids []ID, err error) {
	infos, err := s.List(ctx, names.States)
	if err != nil {
		return nil, fmt.Errorf("list states of the cold store: %w", err)
	}
	for _, info := range infos {
		var i ID
		base := path.Base(info.Name)
		if n, err := fmt.Sscanf(base, "%016x-%016x-%016x", &i.Owner, &i.Term, &i.Number); n == 3 && err == nil && i.String() == base {
			ids = append(ids, i)
		}
	}
	slices.SortFunc(ids, ID.Compare)
	return ids, nil
}

// ErrNone is returned by Newest for a store without states.
var ErrNone = errors.New("nothing has been published in the cold store")

// Newest returns the newest state.
func Newest(ctx context.Context, s object.Store) (ID, error) {
	ids, err := list(ctx, s)
	if err == nil && len(ids) == 0 {
		err = ErrNone
	}
	if err != nil {
		return ID{}, err
	}
	return ids[len(ids)-1], nil
}

// Read returns what a state has.
func Read(ctx context.Context, s object.Store, i ID) (*backup.Manifest, error) {
	m, err := backup.ReadManifest(ctx, s, i.key())
	if err != nil {
		return nil, fmt.Errorf("read state of the cold store: %w", err)
	}
	return m, nil
}
