package store

import (
	"bytes"
	"path"
	"testing"
	"time"

	"tsdbd/internal/vfs"
	"tsdbd/internal/vfs/vfstest"
	"tsdbd/meta"
	"tsdbd/store/touched"
)

// TestDamagedMetaGoesToQuarantine: what a damaged file beside the catalog has is kept, whether a
// start or the scrub finds it, and another takes its place.
func TestDamagedMetaGoesToQuarantine(t *testing.T) {
	for _, name := range append(meta.CopyNames(), touched.Name) {
		for _, running := range []bool{false, true} {
			fs := vfstest.New()
			s := openTest(t, fs, testOptions(fs))
			s.create("db")
			s.must(s.Apply(t.Context(), meta.CreateRetentionPolicy{Database: "db", Policy: meta.RetentionPolicySpec{Name: "hours"}}))
			s.must(s.Apply(t.Context(), meta.CreateDownsample{Database: "db", From: "autogen", Into: "hours", Definitions: []meta.Definition{{Period: meta.Period{Every: time.Hour}, Functions: []string{"max"}}}}))
			s.must(s.write("db", "m f=1 1"))
			s.must(s.catalog.Save())
			if !running {
				s.must(s.Close())
			}
			file := path.Join("/data", "meta", name)
			damaged, err := vfs.ReadFile(fs, file)
			if err != nil {
				t.Fatal(err)
			}
			damaged[len(damaged)/2] ^= 1
			s.must(vfs.WriteFileSynced(fs, file, damaged))
			if running {
				if found, err := s.CheckMeta(); len(found) != 1 || err != nil {
					t.Errorf("%s: damage %v, %v", name, found, err)
				}
			} else {
				s = openTest(t, fs, testOptions(fs))
			}
			kept, err := vfs.ReadFile(fs, path.Join("/data", "quarantine", name))
			if err != nil || !bytes.Equal(kept, damaged) {
				t.Errorf("%s, running %t: quarantine has %d bytes, want %d: %v", name, running, len(kept), len(damaged), err)
			}
			if found, err := s.CheckMeta(); len(found) != 0 || err != nil {
				t.Errorf("%s: damage %v, %v again", name, found, err)
			}
			s.must(s.Close())
		}
	}
}
