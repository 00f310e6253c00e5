package object

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"path"

	"tsdbd/internal/vfs"
)

// Ensure makes sure that a store has an object of size bytes, and reports whether it had to
// put it. One of another size is damaged, and is replaced. content is called for what to put.
func Ensure(ctx context.Context, s Store, name string, size int64, content func() (Content, error)) (did bool, err error) {
	info, err := s.Stat(ctx, name)
	if err == nil && info.Size == size {
		return false, nil
	}
	if err == nil {
		err = s.Delete(ctx, name)
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return false, err
	}
	c, err := content()
	if err == nil {
		err = s.Put(ctx, name, c)
	}
	if errors.Is(err, ErrExists) { // somebody was faster, or an answer was lost
		return false, nil
	}
	return err == nil, err
}

// Save writes an object of size bytes to a file, synced. After an error there may be a part of it.
func Save(ctx context.Context, s Store, name string, size int64, fsys vfs.FS, file string) error {
	in, err := s.ReadRange(ctx, name, 0, size)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := fsys.Create(file)
	if err != nil {
		return err
	}
	if _, err = io.Copy(out, in); err == nil {
		err = out.Sync()
	}
	return errors.Join(err, out.Close())
}

// SumFile returns the SHA-256 of a file in hex, as Content has it.
func SumFile(ctx context.Context, fsys vfs.FS, file string) (string, error) {
	in, err := OpenDir(fsys, path.Dir(file)).ReadRange(ctx, path.Base(file), 0, -1)
	if err != nil {
		return "", err
	}
	defer in.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, in); err != nil {
		return "", err
	}
	return hex.EncodeToString(sum.Sum(nil)), nil
}
