package inspect

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tsdbd/internal/vfs"
	"tsdbd/meta"
)

// encodingsData is a directory with two databases. Database d has a shard in two
// files with 300 rows of five fields, times once regular and once not, and a
// lone row.
func encodingsData(t *testing.T) (dir string) {
	dir = t.TempDir()
	st := testStore(t, dir)
	var b strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	rate, count := int64(5000), int64(0)
	for i := range int64(300) {
		rate += rng.Int64N(5) - 2
		count += rate
		fmt.Fprintf(&b, "m,host=a full=%v,dec=%v,n=%di,ok=%v,s=\"GET /%d\" %d\n",
			100*float64(900+rng.IntN(60))/997, float64(rng.IntN(50))/10, count, i%3 == 0, rng.IntN(1e6), 10*week+i*10e9)
	}
	write(t, st, b.String())
	flush(t, st)
	b.Reset()
	for i := range int64(100) {
		fmt.Fprintf(&b, "m,host=b n=%di %d\n", rng.IntN(7), 10*week+i*10e9+rng.Int64N(9e6))
	}
	fmt.Fprintf(&b, "m,host=c full=0.1 %d\n", int64(10*week))
	write(t, st, b.String())
	flush(t, st)
	if err := st.Apply(context.Background(), meta.CreateDatabase{Name: "e"}); err != nil {
		t.Fatal(err)
	}
	if err := st.Close(); err != nil {
		t.Fatal(err)
	}
	return dir
}

// vanishing hides a file from the first who opens it, as a merge does that
// removes it between the manifest and the file.
type vanishing struct {
	vfs.FS
	name string
	left int
}

func (v *vanishing) Open(name string) (vfs.File, error) {
	if filepath.Base(name) == v.name && v.left > 0 {
		v.left--
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return v.FS.Open(name)
}

// TestEncodings counts blocks, values and bytes of a file, a shard and a whole
// directory.
func TestEncodings(t *testing.T) {
	dir := encodingsData(t)
	of := func(fsys vfs.FS, name string) *EncodingsReport {
		t.Helper()
		r, err := Encodings(fsys, name)
		if err != nil {
			t.Fatal(err)
		}
		r.Path = ""
		return r
	}
	all := of(vfs.OS, dir)
	var names []string
	for _, e := range all.Encodings {
		names = append(names, fmt.Sprintf("%s %s %d/%d", e.Type, e.Encoding, e.Blocks, e.Values))
		if e.Bytes <= 0 != (e.Encoding == "regular") {
			t.Errorf("%+v", e)
		}
	}
	const want = "boolean bits 1/300, float alp packed 1/300, float gorilla 1/300, float lone 1/1, integer packed delta-of-delta 1/300, integer simple8b 1/100, " +
		"string snappy 1/300, time packed trend 1/100, time regular 2/301"
	if got := strings.Join(names, ", "); got != want {
		t.Errorf("encodings are\n%s\nwant\n%s", got, want)
	}
	if all.Files != 2 || all.Values != 1601 || len(all.Damage) > 0 {
		t.Errorf("%d files, %d values, damage %v", all.Files, all.Values, all.Damage)
	}
	if r := of(vfs.OS, filepath.Join(dir, "db-1", "shard-1")); !reflect.DeepEqual(r, all) {
		t.Errorf("the shard has %+v, the directory %+v", r, all)
	}
	sum := EncodingsReport{}
	for _, name := range files(t, dir, "*.tsm") {
		r := of(vfs.OS, name)
		if r.Files != 1 {
			t.Errorf("%s counts as %d files", name, r.Files)
		}
		sum.merge(r)
	}
	if sum.Bytes != all.Bytes || sum.Values != all.Values {
		t.Errorf("files sum up to %+v", sum)
	}
	gone := filepath.Base(files(t, dir, "*.tsm")[1])
	if r := of(&vanishing{vfs.OS, gone, 2}, dir); !reflect.DeepEqual(r, all) {
		t.Errorf("with a merge meanwhile: %+v", r)
	}
	if r := of(&vanishing{vfs.OS, gone, 100}, dir); len(r.Damage) != 1 || r.Files != 1 || len(Damages(r)) != 1 {
		t.Errorf("without a file: %+v", r)
	}
	if _, err := Encodings(vfs.OS, filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no such file: %v", err)
	}
	var text bytes.Buffer
	if err := Write(&text, all, false); err != nil || !strings.Contains(text.String(), "packed delta-of-delta") {
		t.Errorf("%s (%v)", text.String(), err)
	}
}
