package tsm

import (
	"context"

	"github.com/cespare/xxhash/v2"

	"tsdbd/internal/binio"
	"tsdbd/internal/vfs"
)

// VerifyContent recomputes the content checksum alone. It finds any changed
// byte, as Verify does, at the speed of the hash; it cannot say where the byte
// is. Open has checked what follows the content.
func (r *Reader) VerifyContent(ctx context.Context) (err error) {
	defer vfs.CatchFault(&err)()
	sum, err := r.contentSum(ctx)
	if err != nil {
		return err
	}
	if want := r.foot.info.Checksum; sum != want {
		return binio.Corruptf(r.Path(), -1, "tsm: content checksum %016x, footer says %016x", sum, want)
	}
	return nil
}

// contentSum hashes what the content checksum covers.
func (r *Reader) contentSum(ctx context.Context) (uint64, error) {
	var h xxhash.Digest
	h.Reset()
	for rest := r.Data()[:r.foot.sec.footer]; len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(len(rest), 1<<20)
		_, _ = h.Write(rest[:n])
		rest = rest[n:]
	}
	return h.Sum64(), nil
}
