package tsm

import (
	"context"

	"tsdbd/internal/vfs"
)

// VerifyTail checks what follows the body of the file, as far as it has checksums. It does not
// read the body.
func (r *Reader) VerifyTail(ctx context.Context) (err error) {
	defer vfs.CatchFault(&err)()
	s := &r.foot.sec
	for b := uint64(0); b*blockSize < s.checksums-s.keys; b++ {
		if err := ctx.Err(); err != nil {
			return err
		}
		if err := r.checkBlock(b); err != nil {
			return err
		}
	}
	return nil
}
