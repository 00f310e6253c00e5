package tsi

import (
	"context"
	"path/filepath"
	"regexp"
	"testing"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/testkit/load"
	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
	"tsdbd/series"
)

// benchIndex is an index of one file over the keys, with their series file.
func benchIndex(b *testing.B, keys []string, measurement string) (*Index, *series.File, string) {
	dir := b.TempDir()
	sf, err := series.Open(vfs.OS, dir, series.Options{Cache: series.NewCache(32 << 20)})
	if err != nil {
		b.Fatal(err)
	}
	ids := createAll(b, sf, keys)
	if err := sf.Sync(); err != nil {
		b.Fatal(err)
	}
	x, _ := NewIndex(IndexOptions{Keys: sf.Keys})
	x.RegisterFields(&point.Layout{Measurement: measurement, Fields: []column.Field{{Key: "value", Type: model.Float}}})
	for i := range keys {
		x.AddSeries(ids[i], keys[i])
	}
	s := x.Freeze()
	path := filepath.Join(dir, "1.tsi")
	if _, err := s.WriteFile(vfs.OS, path); err != nil {
		b.Fatal(err)
	}
	f, err := OpenFile(vfs.OS, path)
	if err != nil {
		b.Fatal(err)
	}
	x.Publish(s, f)
	return x, sf, path
}

func BenchmarkIndexWrite(b *testing.B) {
	for _, c := range []struct {
		name string
		keys []string
	}{{"hicard1M", load.HicardKeys(1_000_000)}, {"tsbs200k", load.TSBSKeys(200_000)}} {
		sf, _ := series.Open(vfs.OS, b.TempDir(), series.Options{})
		ids := createAll(b, sf, c.keys)
		var x *Index
		n := float64(len(c.keys))
		b.Run(c.name+"/add", func(b *testing.B) {
			for b.Loop() {
				x, _ = NewIndex(IndexOptions{})
				for i := range c.keys {
					x.AddSeries(ids[i], c.keys[i])
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
		})
		s := x.Freeze()
		path := filepath.Join(b.TempDir(), "1.tsi")
		b.Run(c.name+"/write", func(b *testing.B) {
			var info FileInfo
			for b.Loop() {
				var err error
				if info, err = s.WriteFile(vfs.OS, path); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
			b.ReportMetric(float64(info.Bytes)/n, "B/series")
		})
		f, err := OpenFile(vfs.OS, path)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(c.name+"/merge", func(b *testing.B) {
			for b.Loop() {
				if _, err := MergeFiles(vfs.OS, path+"m", []*File{f}, MergeOptions{Deleted: roaring.BitmapOf(7)}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/n, "ns/series")
		})
		b.Run(c.name+"/open", func(b *testing.B) {
			for b.Loop() {
				f, err := OpenFile(vfs.OS, path)
				if err != nil {
					b.Fatal(err)
				}
				x, err := NewIndex(IndexOptions{Files: []*File{f}})
				if err != nil {
					b.Fatal(err)
				}
				x.Close()
			}
		})
	}
}

func BenchmarkIndexRead(b *testing.B) {
	x, _, _ := benchIndex(b, load.HicardKeys(1_000_000), "m")
	v := x.View()
	defer v.Release()
	eq := func(k, s string) *model.TagExpr { return &model.TagExpr{Op: model.TagEqual, Key: k, Value: s} }
	re := func(k, s string) *model.TagExpr {
		return &model.TagExpr{Op: model.TagMatch, Key: k, Regex: regexp.MustCompile(s)}
	}
	and := func(l, r *model.TagExpr) *model.TagExpr { return &model.TagExpr{Op: model.TagAnd, Left: l, Right: r} }
	for _, c := range []struct {
		name string
		e    *model.TagExpr
	}{
		{"host=one", eq("host", "host_0777777")},
		{"app=1of200", eq("app", "app-17")},
		{"app,dc", and(eq("app", "app-17"), eq("dc", "dc3"))},
		{"dc!=", &model.TagExpr{Op: model.TagNotEqual, Key: "dc", Value: "dc3"}},
		{"host-prefix", re("host", "^host_0777")},
		{"host-list", re("host", "^(host_0000001|host_0500000|host_0999999)$")},
		{"host-literal", re("host", "7777")},
		{"host-any", re("host", "[13]5.*9$")},
		{"host-digits", re("host", `^host_\d+5$`)},
		{"app+host-regex", and(eq("app", "app-17"), re("host", "5$"))},
		{"rack-regex", re("rack", "-1[0-9]+$")},
	} {
		b.Run("select/"+c.name, func(b *testing.B) {
			n := uint64(0)
			for b.Loop() {
				set, err := v.Select(context.Background(), "m", c.e)
				if err != nil {
					b.Fatal(err)
				}
				n = set.GetCardinality()
			}
			b.ReportMetric(float64(n), "series")
		})
	}
	all, _ := v.Series("m")
	for _, c := range []struct {
		name string
		n    int
		keys []string
	}{
		{"285k-app", 285_000, []string{"app"}},
		{"285k-app-dc", 285_000, []string{"app", "dc"}},
		{"285k-rack-service", 285_000, []string{"rack", "service"}},
		{"285k-host", 285_000, []string{"host"}},
		{"1M-host", 1_000_000, []string{"host"}},
		{"1M-region", 1_000_000, []string{"region"}},
		{"100-all", 100, []string{"app", "dc", "host", "rack", "region", "service"}},
	} {
		set := all.Clone()
		set.RemoveRange(uint64(c.n)+1, 1<<32)
		b.Run("group/"+c.name, func(b *testing.B) {
			groups := 0
			for b.Loop() {
				g, err := v.Charged(nil).GroupBy("m", set, c.keys)
				if err != nil {
					b.Fatal(err)
				}
				groups = len(g.Tuples)
			}
			b.ReportMetric(float64(groups), "groups")
		})
	}
	for _, c := range []struct {
		name  string
		every uint32
		keys  []string
	}{
		{"10k-wide-rack", 100, []string{"rack"}},
		{"1k-wide-rack-dc", 1000, []string{"rack", "dc"}},
	} {
		set := roaring.New()
		for id := uint32(1); id <= 1_000_000; id += c.every {
			set.Add(id)
		}
		b.Run("group/"+c.name, func(b *testing.B) {
			for b.Loop() {
				if _, err := v.Charged(nil).GroupBy("m", set, c.keys); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	b.Run("values/host", func(b *testing.B) {
		for b.Loop() {
			if _, err := v.Charged(nil).TagValues("m", "host", nil); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("view", func(b *testing.B) {
		for b.Loop() {
			x.View().Release()
		}
	})
	b.Run("contains", func(b *testing.B) {
		i := 0
		for b.Loop() {
			i = (i + 7919) % 1_000_000
			if !x.Contains(model.SeriesID(i + 1)) {
				b.Fatal(i)
			}
		}
	})
}
