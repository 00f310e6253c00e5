package query

import (
	"context"

	"tsdbd/meta"
	"tsdbd/model/scan"
)

// Admin gives statements access to the catalog and to changes of rows.
type Admin interface {
	// Catalog returns the present catalog. It must not be changed.
	Catalog() *meta.Data
	// Apply changes the catalog. When it returns, the data of dropped databases,
	// policies, and shards is invisible to readers.
	Apply(ctx context.Context, cmd meta.Command) error
	// Delete removes rows. They are removed durably when it returns.
	Delete(ctx context.Context, req scan.DeleteRequest) error
	// Move gives series or fields other names. They have them durably when it returns.
	Move(ctx context.Context, req scan.MoveRequest) (scan.Moved, error)
}
