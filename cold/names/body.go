package names

import (
	"context"
	"fmt"
	"io"

	"tsdbd/internal/object"
)

// Body reads an object of a store without a cache. It implements tsm.Body.
type Body struct {
	Store  object.Store
	Object string
}

// ReadBody fills p with the bytes at an offset of the object.
func (b Body) ReadBody(ctx context.Context, p []byte, off int64) error {
	in, err := b.Store.ReadRange(ctx, Key(b.Object), off, int64(len(p)))
	if err != nil {
		return err
	}
	defer in.Close()
	if _, err := io.ReadFull(in, p); err != nil {
		return fmt.Errorf("read object %s: %w", b.Object, err)
	}
	return nil
}
