package objecttest

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"tsdbd/internal/object"
	"tsdbd/internal/vfs"
)

// Contract holds a store against the interface. The store is empty, and dir is a
// directory from which files can be put into it.
func Contract(t *testing.T, s object.Store, dir string) {
	ctx := t.Context()
	big := bytes.Repeat([]byte("0123456789abcde\n"), 40_000)
	put := func(name string, c object.Content) {
		t.Helper()
		if err := s.Put(ctx, name, c); err != nil {
			t.Fatal(err)
		}
	}
	file := func(b []byte) object.Content {
		t.Helper()
		name := filepath.Join(dir, "file")
		if err := os.WriteFile(name, b, 0o600); err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(b)
		return object.Content{FS: vfs.OS, Path: name, SHA256: hex.EncodeToString(sum[:])}
	}
	names := func(dir string) (out []string) {
		t.Helper()
		infos, err := s.List(ctx, dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range infos {
			out = append(out, i.Name)
		}
		return out
	}
	for _, dir := range []string{"", "d"} {
		if got := names(dir); len(got) > 0 {
			t.Fatalf("an empty store has %q", got)
		}
	}

	put("m", object.Content{Bytes: []byte("manifest")})
	put("empty", object.Content{})
	if err := os.MkdirAll(filepath.Join(dir, "d"), 0o700); err != nil {
		t.Fatal(err)
	}
	c := file(big)
	put("d/big", c)
	if _, err := os.Stat(c.Path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the file that was put is still there: %v", err)
	}
	kept, paced := file(big), 0
	kept.Keep, kept.Pace = true, func(_ context.Context, bytes int) error { paced += bytes; return nil }
	put("kept/big", kept)
	if b, err := os.ReadFile(kept.Path); err != nil || !bytes.Equal(b, big) {
		t.Errorf("a file that is to stay has %d bytes, %v", len(b), err)
	}
	if b, err := object.Read(ctx, s, "kept/big", 1<<20); err != nil || !bytes.Equal(b, big) {
		t.Errorf("the object of a file that stays has %d bytes, %v", len(b), err)
	}
	if paced < len(big) {
		t.Errorf("%d of %d bytes were paced", paced, len(big))
	}
	if err := s.Put(ctx, "kept/big", kept); !errors.Is(err, object.ErrExists) {
		t.Errorf("second put of a file that stays: %v", err)
	}
	stopped := errors.New("stopped")
	kept.Pace = func(context.Context, int) error { return stopped }
	if err := s.Put(ctx, "kept/stopped", kept); err == nil {
		t.Error("put of a file went on though its pace said no")
	}
	if got, want := names("kept"), []string{"kept/big"}; !slices.Equal(got, want) {
		t.Errorf("list has %q, want %q", got, want)
	}
	put("d/small", file([]byte("small")))
	put("d/e f+g=%", object.Content{Bytes: []byte("odd name")})
	put("d/e/below", object.Content{Bytes: []byte("x")})
	if got, want := names("d"), []string{"d/big", "d/e f+g=%", "d/small"}; !slices.Equal(got, want) {
		t.Errorf("list has %q, want %q", got, want)
	}
	if got, want := names(""), []string{"empty", "m"}; !slices.Equal(got, want) {
		t.Errorf("list of the top has %q, want %q", got, want)
	}
	infos, err := s.List(ctx, "d")
	if err != nil || infos[0].Size != int64(len(big)) {
		t.Errorf("list %+v, %v", infos, err)
	}

	again := file([]byte("other"))
	for name, c := range map[string]object.Content{"m": {Bytes: []byte("other")}, "d/big": again} {
		if err := s.Put(ctx, name, c); !errors.Is(err, object.ErrExists) {
			t.Errorf("put of %s, which exists: %v", name, err)
		}
	}
	if _, err := os.Stat(again.Path); err != nil {
		t.Errorf("a file that was refused is gone: %v", err)
	}

	for _, r := range []struct {
		name           string
		offset, length int64
		want           []byte
		err            error
	}{
		{"d/big", 0, -1, big, nil},
		{"d/big", 0, int64(len(big)), big, nil},
		{"d/big", 17, 1000, big[17:1017], nil},
		{"d/big", 639_990, -1, big[639_990:], nil},
		{"d/big", 5, 0, nil, nil},
		{"d/big", 639_990, 11, big[639_990:], io.ErrUnexpectedEOF},
		{"d/big", 700_000, 1, nil, io.ErrUnexpectedEOF},
		{"empty", 0, -1, nil, nil},
		{"m", 0, -1, []byte("manifest"), nil},
		{"d/none", 0, -1, nil, object.ErrNotFound},
		{"d/none", 1, 1, nil, object.ErrNotFound},
	} {
		var got []byte
		body, err := s.ReadRange(ctx, r.name, r.offset, r.length)
		if err == nil {
			got, err = io.ReadAll(body)
			if e := body.Close(); e != nil {
				t.Error(e)
			}
		}
		if !errors.Is(err, r.err) || !bytes.Equal(got, r.want) {
			t.Errorf("read of %s from %d, %d bytes: %d bytes, %v; want %d, %v", r.name, r.offset, r.length, len(got), err, len(r.want), r.err)
		}
	}
	if _, err := object.Read(ctx, s, "d/big", 100); err == nil {
		t.Error("read more than the limit")
	}

	st, err := s.Stat(ctx, "d/big")
	if err != nil || st.Size != int64(len(big)) || st.Age < 0 || st.SHA256 != "" && st.SHA256 != c.SHA256 {
		t.Errorf("stat %+v, %v", st, err)
	}
	if _, err := s.Stat(ctx, "d/none"); !errors.Is(err, object.ErrNotFound) {
		t.Errorf("stat of nothing: %v", err)
	}

	// Of those who put one name at the same time one wins, and its bytes are there whole.
	var won atomic.Int64
	var wg sync.WaitGroup
	for i := range byte(8) {
		wg.Go(func() {
			err := s.Put(ctx, "raced", object.Content{Bytes: bytes.Repeat([]byte{'0' + i}, 1000)})
			switch {
			case err == nil:
				won.Add(1)
			case !errors.Is(err, object.ErrExists):
				t.Errorf("raced: %v", err)
			}
		})
	}
	wg.Wait()
	b, err := object.Read(ctx, s, "raced", 1<<20)
	if won.Load() != 1 || err != nil || len(b) != 1000 || len(bytes.Trim(b, string(b[:1]))) > 0 {
		t.Errorf("%d have put the same name, it has %q, %v", won.Load(), b, err)
	}

	if err := s.Delete(ctx, "m", "d/none", "d/small", "d/e f+g=%"); err != nil {
		t.Error(err)
	}
	if got := names("d"); !slices.Equal(got, []string{"d/big"}) {
		t.Errorf("after deletes list has %q", got)
	}
	put("m", object.Content{Bytes: []byte("again")})

	ended, cancel := context.WithCancel(ctx)
	cancel()
	_, errRead := s.ReadRange(ended, "d/big", 0, -1)
	_, errList := s.List(ended, "d")
	for what, err := range map[string]error{
		"put": s.Put(ended, "n", object.Content{}), "read": errRead, "list": errList, "delete": s.Delete(ended, "m"),
	} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s after the context has ended: %v", what, err)
		}
	}
}
