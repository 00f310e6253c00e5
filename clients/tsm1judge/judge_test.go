package tsm1judge

import (
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/influxdata/influxdb/tsdb"
	engine "github.com/influxdata/influxdb/tsdb/engine/tsm1"

	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/transfer/tsm1"
)

// cells are values by column key and time.
type cells map[string]string

func cell(key string, t int64) string { return fmt.Sprintf("%s @%d", key, t) }

func (c cells) diff(want cells) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(want)) {
		if got, ok := c[k]; !ok || got != want[k] {
			out = append(out, fmt.Sprintf("%s: %q, want %q", k, got, want[k]))
		}
	}
	for _, k := range slices.Sorted(maps.Keys(c)) {
		if _, ok := want[k]; !ok {
			out = append(out, fmt.Sprintf("%s: %q, want nothing", k, c[k]))
		}
	}
	if len(out) == 0 {
		return ""
	}
	return fmt.Sprintf("%d of %d values differ:\n%s", len(out), len(want), strings.Join(out[:min(len(out), 20)], "\n"))
}

// shardDirs are the directories of one shard.
type shardDirs struct{ root, data, wal string }

func newShard(t *testing.T) shardDirs {
	root := t.TempDir()
	d := shardDirs{root, filepath.Join(root, "data", "db", "rp", "7"), filepath.Join(root, "wal", "db", "rp", "7")}
	for _, dir := range []string{d.data, d.wal} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	return d
}

// ours reads the shard by tsdbd.
func (d shardDirs) ours(t *testing.T) cells {
	t.Helper()
	s, err := tsm1.Open(d.root, tsm1.Options{
		Damage: func(path string, offset int64, err error) { t.Errorf("damage at %s:%d: %v", path, offset, err) },
	})
	if err != nil {
		t.Fatal(err)
	}
	out := cells{}
	for _, sh := range s.Shards() {
		r, err := s.Rows(t.Context(), sh, model.AllTime, func(reason string, _ *rows.Run) {
			t.Errorf("refused: %s", reason)
		})
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		key, latest := "", int64(0)
		for {
			run, err := r.Next(t.Context())
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			if run.Key < key || run.Key == key && run.Times[0] <= latest {
				t.Fatalf("%s at %d after %s at %d", run.Key, run.Times[0], key, latest)
			}
			key, latest = run.Key, run.Times[run.Len()-1]
			for i, f := range run.Fields {
				v := &run.Cols[i]
				for row, at := range run.Times {
					if !v.IsValid(row) {
						continue
					}
					value := ""
					switch f.Type {
					case model.Float:
						value = fmt.Sprint("float ", math.Float64bits(v.Floats[row]))
					case model.Integer:
						value = fmt.Sprint("integer ", v.Ints[row])
					case model.Unsigned:
						value = fmt.Sprint("unsigned ", v.Uints[row])
					case model.String:
						value = "string " + v.Strings[row]
					case model.Boolean:
						value = fmt.Sprint("boolean ", v.Bools[row])
					}
					out[cell(run.Key+"#!~#"+f.Key, at)] = value
				}
			}
		}
	}
	return out
}

// theirs reads the shard by InfluxDB's engine: files with their tombstones, and the log.
func (d shardDirs) theirs(t *testing.T) cells {
	t.Helper()
	out := cells{}
	fs := engine.NewFileStore(d.data)
	if err := fs.Open(); err != nil {
		t.Fatal(err)
	}
	defer fs.Close()
	for key, kind := range fs.Keys() {
		c := fs.KeyCursor(context.Background(), []byte(key), math.MinInt64+1, true)
		put := func(times []int64, value func(i int) string) int {
			for i, at := range times {
				out[cell(key, at)] = value(i)
			}
			return len(times)
		}
		for n := 1; n > 0; c.Next() {
			var err error
			switch kind {
			case engine.BlockFloat64:
				var a tsdb.FloatArray
				_, err = c.ReadFloatArrayBlock(&a)
				n = put(a.Timestamps, func(i int) string { return fmt.Sprint("float ", math.Float64bits(a.Values[i])) })
			case engine.BlockInteger:
				var a tsdb.IntegerArray
				_, err = c.ReadIntegerArrayBlock(&a)
				n = put(a.Timestamps, func(i int) string { return fmt.Sprint("integer ", a.Values[i]) })
			case engine.BlockUnsigned:
				var a tsdb.UnsignedArray
				_, err = c.ReadUnsignedArrayBlock(&a)
				n = put(a.Timestamps, func(i int) string { return fmt.Sprint("unsigned ", a.Values[i]) })
			case engine.BlockString:
				var a tsdb.StringArray
				_, err = c.ReadStringArrayBlock(&a)
				n = put(a.Timestamps, func(i int) string { return "string " + a.Values[i] })
			case engine.BlockBoolean:
				var a tsdb.BooleanArray
				_, err = c.ReadBooleanArrayBlock(&a)
				n = put(a.Timestamps, func(i int) string { return fmt.Sprint("boolean ", a.Values[i]) })
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		c.Close()
	}
	segments, err := filepath.Glob(filepath.Join(d.wal, "*.wal"))
	if err != nil {
		t.Fatal(err)
	}
	cache := engine.NewCache(0)
	if err := engine.NewCacheLoader(segments).Load(cache); err != nil {
		t.Fatal(err)
	}
	for _, key := range cache.Keys() {
		for _, v := range cache.Values(key) {
			out[cell(string(key), v.UnixNano())] = text(v)
		}
	}
	return out
}

func text(v engine.Value) string {
	switch v := v.Value().(type) {
	case float64:
		return fmt.Sprint("float ", math.Float64bits(v))
	case int64:
		return fmt.Sprint("integer ", v)
	case uint64:
		return fmt.Sprint("unsigned ", v)
	case string:
		return "string " + v
	case bool:
		return fmt.Sprint("boolean ", v)
	}
	return "?"
}

// values returns n values of a type and a shape, so that all encodings are used.
func values(r *rand.Rand, kind, n int, start int64) []engine.Value {
	step := []int64{1, 1000, 10e9, 1e9}[r.IntN(4)]
	jitter := []int64{0, 0, 1, 50, 1 << 40}[r.IntN(5)]
	if r.IntN(6) == 0 {
		step = 1 << 60 / 900 // no room in Simple-8b after some
	}
	shape := r.IntN(7)
	out := make([]engine.Value, n)
	at, walk := start, r.Float64()*100
	for i := range out {
		switch kind {
		case 0:
			f := 0.0
			switch shape {
			case 0:
				f = 1.5
			case 1:
				f = float64(i)
			case 2:
				f = math.Float64frombits(r.Uint64())
				if f != f {
					f = math.Inf(-1)
				}
			case 3:
				f = []float64{0, math.Copysign(0, -1), math.MaxFloat64, math.SmallestNonzeroFloat64, math.Inf(1)}[r.IntN(5)]
			case 4:
				walk += r.NormFloat64()
				f = math.Round(walk*100) / 100
			case 5:
				if f = 7; i == n-1 {
					f = 8
				}
			default:
				f = r.Float64()
			}
			out[i] = engine.NewFloatValue(at, f)
		case 1, 2:
			v := int64(0)
			switch shape {
			case 0:
				v = 42
			case 1:
				v = int64(i) * -17
			case 2:
				v = int64(r.Uint64())
			case 3:
				v = []int64{math.MaxInt64, math.MinInt64, 0, -1}[r.IntN(4)]
			case 4:
				v = r.Int64N(1 << uint(1+r.IntN(50)))
			default:
				v = r.Int64N(5)
			}
			if kind == 1 {
				out[i] = engine.NewIntegerValue(at, v)
			} else {
				out[i] = engine.NewUnsignedValue(at, uint64(v))
			}
		case 3:
			out[i] = engine.NewStringValue(at, strings.Repeat("é\n\x00", r.IntN(4))+fmt.Sprint(r.IntN(10)))
		default:
			out[i] = engine.NewBooleanValue(at, shape == 0 || shape > 1 && r.IntN(3) == 0)
		}
		at += step
		if jitter > 0 {
			at += r.Int64N(jitter)
		}
	}
	return out
}

var series = []string{
	"cpu", "cpu!", `cpu"`, "cpu#x", "cpu,host=a", "cpu,host=a!", "cpu,host=a!#!", "cpu,host=b", `m\ x,a\=b=c\,d,e=f`, "mem", "über,k=ß",
}

// columns are the keys of columns, each with one type.
func columns() (keys []string, kinds []int) {
	for _, s := range series {
		measurement, _, _ := strings.Cut(s, ",")
		for j, f := range []string{"a", "ab", "value x", "z"} {
			keys, kinds = append(keys, s+"#!~#"+f), append(kinds, (len(measurement)+j)%5)
		}
	}
	order := make([]int, len(keys))
	for i := range order {
		order[i] = i
	}
	slices.SortFunc(order, func(a, b int) int { return strings.Compare(keys[a], keys[b]) })
	k, t := make([]string, len(keys)), make([]int, len(keys))
	for i, o := range order {
		k[i], t[i] = keys[o], kinds[o]
	}
	return k, t
}

// writeFiles writes TSM files whose blocks overlap those of earlier ones now and then.
func writeFiles(t *testing.T, r *rand.Rand, dir string, n int) []string {
	t.Helper()
	var paths []string
	keys, kinds := columns()
	for generation := range n {
		path := filepath.Join(dir, fmt.Sprintf("%09d-%09d.tsm", generation+1, 1+r.IntN(3)))
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := engine.NewTSMWriter(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			if r.IntN(5) == 0 {
				continue
			}
			start := int64(1e18) + int64(generation)*int64(1e12) - r.Int64N(3e12)*r.Int64N(2)
			for range 1 + r.IntN(3) {
				v := values(r, kinds[i], 1+r.IntN(1000)*r.IntN(2), start)
				if err := w.Write([]byte(key), v); err != nil {
					t.Fatal(err)
				}
				if start = v[len(v)-1].UnixNano() + 1; start > math.MaxInt64/2 {
					break
				}
			}
		}
		if err := w.WriteIndex(); err != nil {
			t.Fatal(err)
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// tombstone writes deletes in one of the versions.
func tombstone(t *testing.T, version int, path string, keys [][]byte, lo, hi int64) {
	t.Helper()
	path = strings.TrimSuffix(path, ".tsm") + ".tombstone"
	var body bytes.Buffer
	for _, k := range keys {
		if version == 1 {
			fmt.Fprintf(&body, "%s\n", k)
			continue
		}
		b := binary.BigEndian.AppendUint32(nil, uint32(len(k)))
		b = append(b, k...)
		body.Write(binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, uint64(lo)), uint64(hi)))
	}
	file := body.Bytes()
	switch version {
	case 2:
		file = append(binary.BigEndian.AppendUint32(nil, 0x1502), file...)
	case 3:
		var z bytes.Buffer
		g := gzip.NewWriter(&z)
		_, _ = g.Write(file)
		_ = g.Close()
		file = append(binary.BigEndian.AppendUint32(nil, 0x1503), z.Bytes()...)
	case 4:
		s := engine.NewTombstoner(strings.TrimSuffix(path, ".tombstone")+".tsm", nil)
		for range 2 { // two members
			if err := s.AddRange(keys, lo, hi); err != nil {
				t.Fatal(err)
			}
			if err := s.Flush(); err != nil {
				t.Fatal(err)
			}
			lo, hi = lo+int64(1e12), hi+int64(1e12)
		}
		return
	}
	if err := os.WriteFile(path, file, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestJudge compares what both read from files that InfluxDB's engine has written.
func TestJudge(t *testing.T) {
	rounds := 12
	for round := range rounds {
		t.Run(fmt.Sprint(round), func(t *testing.T) {
			r := rand.New(rand.NewPCG(uint64(round), 5))
			d := newShard(t)
			keys, kinds := columns()
			files := writeFiles(t, r, d.data, 1+round%4)
			var second []func()
			for i, path := range files {
				if version := (round + i) % 6; version >= 1 && version <= 4 {
					var gone [][]byte
					for _, k := range keys {
						if r.IntN(3) == 0 {
							gone = append(gone, []byte(k))
						}
					}
					lo := int64(1e18) + r.Int64N(2e12)
					hi := lo + r.Int64N(1e13)
					if version == 2 {
						// InfluxDB's reader of version 2 writes the times over the keys.
						tombstone(t, 3, path, gone, lo, hi)
						second = append(second, func() { tombstone(t, 2, path, gone, lo, hi) })
						continue
					}
					tombstone(t, version, path, gone, lo, hi)
				}
			}
			if round%2 == 1 {
				writeLog(t, r, d.wal, 30, keys, kinds)
			}
			want := d.theirs(t)
			if len(want) < 1000 {
				t.Errorf("only %d values", len(want))
			}
			t.Log(len(want), "values")
			for _, write := range second {
				write()
			}
			if diff := d.ours(t).diff(want); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// golden is transfer/tsm1/testdata, to write its files.
var golden = flag.String("golden", "", "write a small shard below this `DIRECTORY`")

// TestGolden writes a small shard: four files with tombstones of the four versions, and a
// log.
func TestGolden(t *testing.T) {
	if *golden == "" {
		t.Skip("no -golden")
	}
	r := rand.New(rand.NewPCG(7, 7))
	d := shardDirs{*golden + "/engine", *golden + "/engine/data/db/rp/7", *golden + "/engine/wal/db/rp/7"}
	for _, dir := range []string{d.data, d.wal} {
		if err := os.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	keys, kinds := columns()
	var second func()
	for generation := 1; generation <= 4; generation++ {
		path := filepath.Join(d.data, fmt.Sprintf("%09d-%09d.tsm", generation, generation%3+1))
		f, err := os.Create(path)
		if err != nil {
			t.Fatal(err)
		}
		w, err := engine.NewTSMWriter(f)
		if err != nil {
			t.Fatal(err)
		}
		for i, key := range keys {
			if err := w.Write([]byte(key), values(r, kinds[i], 1+r.IntN(12), int64(1e18)+int64(generation)*1e9)); err != nil {
				t.Fatal(err)
			}
		}
		if err := cmp.Or(w.WriteIndex(), w.Close()); err != nil {
			t.Fatal(err)
		}
		gone := [][]byte{[]byte(keys[generation]), []byte(keys[20+generation])}
		if generation == 2 { // see TestJudge
			tombstone(t, 3, path, gone, 1e18, 1e18+10e9)
			second = func() { tombstone(t, 2, path, gone, 1e18, 1e18+10e9) }
			continue
		}
		tombstone(t, generation, path, gone, 1e18, 1e18+10e9)
	}
	writeLog(t, r, d.wal, 6, keys, kinds)
	want := d.theirs(t)
	second()
	if diff := d.ours(t).diff(want); diff != "" {
		t.Error(diff)
	}
}

// writeLog writes a WAL of n writes and some deletes.
func writeLog(t *testing.T, r *rand.Rand, dir string, n int, keys []string, kinds []int) {
	t.Helper()
	w := engine.NewWAL(dir)
	if err := w.Open(); err != nil {
		t.Fatal(err)
	}
	check := func(_ int, err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	some := func() (out [][]byte) {
		for _, k := range keys {
			if r.IntN(4) == 0 {
				out = append(out, []byte(k))
			}
		}
		return append(out, []byte(keys[0]))
	}
	for range n {
		batch := map[string][]engine.Value{}
		for range 8 {
			i := r.IntN(len(keys))
			v := values(r, kinds[i], 1+r.IntN(50), int64(1e18)+r.Int64N(1e12))
			r.Shuffle(len(v), func(a, b int) { v[a], v[b] = v[b], v[a] })
			batch[keys[i]] = v
		}
		check(w.WriteMulti(batch))
		switch r.IntN(6) {
		case 0:
			check(w.Delete(some()))
		case 1:
			lo := int64(1e18) + r.Int64N(1e12)
			check(w.DeleteRange(some(), lo, lo+r.Int64N(1e11)))
		case 2:
			if err := w.CloseSegment(); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
}
