package tsm

import (
	"context"
	"fmt"
	"io"

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
		return binio.Corruptf(r.blamed(), -1, "tsm: content checksum %016x, footer says %016x", sum, want)
	}
	return nil
}

// CheckFile reads the file at path, which is to be sound and to have the checksum and the
// size of info, past a mapping of it. Damage is a *binio.CorruptError; it cannot say where
// in the content it is, as Verify can.
func CheckFile(fs vfs.FS, path string, info Info) error {
	r, err := Open(fs, path) // checks what follows the content
	if err != nil {
		return err
	}
	defer r.Close()
	if i := r.Info(); i.Checksum != info.Checksum || i.Size != info.Size {
		return binio.Corruptf(path, -1, "this is another file")
	}
	f, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	h := xxhash.New()
	if _, err := io.Copy(h, io.NewSectionReader(f, 0, int64(r.foot.sec.footer))); err != nil {
		return fmt.Errorf("read tsm %s: %w", path, err)
	}
	if sum := h.Sum64(); sum != info.Checksum {
		return binio.Corruptf(path, -1, "tsm: content checksum %016x, footer says %016x", sum, info.Checksum)
	}
	return nil
}

// contentSum hashes what the content checksum covers.
func (r *Reader) contentSum(ctx context.Context) (uint64, error) {
	var h xxhash.Digest
	h.Reset()
	const step = 1 << 20
	if r.body != nil {
		buf := make([]byte, min(r.base, step))
		for at := uint64(0); at < r.base; at += step {
			b := buf[:min(r.base-at, step)]
			if err := r.body.ReadBody(ctx, b, int64(at)); err != nil {
				return 0, err
			}
			_, _ = h.Write(b)
		}
	}
	for rest := r.section(r.base, r.foot.sec.footer); len(rest) > 0; {
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		n := min(len(rest), step)
		_, _ = h.Write(rest[:n])
		rest = rest[n:]
	}
	return h.Sum64(), nil
}
