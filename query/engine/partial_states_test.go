package engine

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/binio"
	"tsdbd/internal/testkit/testseed"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/partial"
	"tsdbd/query/engine/read"
	"tsdbd/query/result"
)

var update = flag.Bool("update", false, "write golden files of formats that have none")

// stateQueries have a folder and no other operator. Their references carry types,
// as in a statement that is sent to a store without such a field.
var stateQueries = []string{
	"SELECT count(f::float), count(s::string), sum(f::float), sum(i::integer), mean(f::float), spread(i::integer), stddev(f::float), min(f::float), max(b::boolean), first(s::string), last(i::integer) FROM m GROUP BY time(1m), h fill(none)",
	"SELECT mean(f::float), stddev(i::integer), min(u::unsigned), first(f::float), last(b::boolean) FROM m GROUP BY g ORDER BY time DESC",
	"SELECT first(f::float), h::tag, s::string, i::integer FROM m",
	"SELECT last(s::string), h::tag, f::float FROM m GROUP BY g ORDER BY time DESC",
	"SELECT min(f::float), h::tag, b::boolean FROM m GROUP BY time(40s) fill(none)",
	"SELECT max(i::integer), g::tag FROM m WHERE f > 0",
	"SELECT distinct(i::integer) FROM m GROUP BY time(2m) fill(none) ORDER BY time DESC",
	"SELECT distinct(s::string) FROM m GROUP BY h",
	"SELECT count(distinct(f::float)), mode(i::integer), mode(s::string), mode(b::boolean), sum(i::integer) FROM m GROUP BY time(50s), h, g fill(none)",
	"SELECT top(f::float, 3) FROM m GROUP BY time(1m) fill(none)",
	"SELECT top(f::float, h::tag, 2), s::string FROM m GROUP BY g",
	"SELECT bottom(i::integer, g::tag, h::tag, 70), f::float, h::tag FROM m ORDER BY time DESC",
	"SELECT bottom(u::unsigned, 4), h::tag FROM m GROUP BY time(1m) fill(none) ORDER BY time DESC",
	"SELECT sample(s::string, 3), f::float FROM m GROUP BY h",
	"SELECT sample(i::integer, 100), sample(f::float, 2) FROM m GROUP BY time(1m) fill(none)",
	"SELECT sum_hll(s::string), sum_hll(f::float) FROM m GROUP BY h",
	"SELECT mean(f::float), mode(i::integer) FROM m WHERE time >= 0 AND time < 500d GROUP BY time(1d), h tz('Europe/Berlin')",
	"SELECT mean(f::float), last(i::integer) FROM m WHERE time >= 0 AND time < 500d GROUP BY time(30d, '1mo')",
}

// statePlan plans a statement over a store and opens it.
func statePlan(t testing.TB, m *scantest.Store, q string) (*levelRun, *folder) {
	t.Helper()
	stmt, err := parseSelect(m, q)
	if err != nil {
		t.Fatal(q, err)
	}
	x := newExec(t.Context(), m, Options{Workers: 2, Now: time.Unix(1<<30, 0)})
	r, err := x.plan(stmt)
	if err != nil {
		t.Fatal(q, err)
	}
	if len(r.operators) != 1 {
		t.Fatalf("%s has %d operators", q, len(r.operators))
	}
	if err := r.open(r.l.Names); err != nil {
		t.Fatal(q, err)
	}
	f := r.operators[0].(*folder)
	for i := range f.Slots {
		f.Slots[i].Seed = uint64(i) // a statement is sent with its seeds
	}
	return r, f
}

// encodedStates returns what a store answers to a statement.
func encodedStates(t testing.TB, m *scantest.Store, q string) []byte {
	t.Helper()
	r, f := statePlan(t, m, q)
	if err := f.states(); err != nil {
		t.Fatal(q, err)
	}
	return f.Encode(nil, r.groups, len(r.l.Dims))
}

// mergedStates returns the states and the rows of the answers of stores.
func mergedStates(t testing.TB, m *scantest.Store, q string, parts ...[]byte) (states []byte, rows string) {
	t.Helper()
	r, f := statePlan(t, m, q)
	r.groups = &read.GroupTable{}
	charged := int64(0)
	charge := func(n int64) error {
		charged += n
		return nil
	}
	if err := f.Decode(r.groups, len(r.l.Dims), !r.l.Asc, charge, parts...); err != nil {
		t.Fatal(q, err)
	}
	if charged == 0 {
		t.Errorf("%s: no memory charged", q)
	}
	var b strings.Builder
	for _, g := range r.groups.Order(r.l.Asc) {
		err := r.emitGroup(g, func(f *frame) error {
			fmt.Fprintln(&b, f.name, f.tuple)
			for i, at := range f.times {
				fmt.Fprint(&b, at)
				for k := range f.cols {
					c, _ := cellJSON(&f.cols[k], i)
					fmt.Fprint(&b, " ", c)
				}
				fmt.Fprintln(&b)
			}
			return nil
		})
		if err != nil {
			t.Fatal(q, err)
		}
	}
	return f.Encode(nil, r.groups, len(r.l.Dims)), b.String()
}

// splitPoints writes random points into one store, and each of them into one of
// others as well. Sums of the values are exact.
func splitPoints(t testing.TB, rnd *rand.Rand, points, parts int) (one *scantest.Store, split []*scantest.Store) {
	stores := make([]*scantest.Store, 1+parts)
	lines := make([]strings.Builder, len(stores))
	for i := range stores {
		stores[i] = scantest.New()
		stores[i].ShardSpan = 200 * 24 * time.Hour
		stores[i].ChunkRows = 1 + rnd.IntN(20)
		stores[i].Create("d", "autogen")
	}
	seen := map[string]bool{}
	for range points {
		at := rnd.IntN(300)
		if rnd.IntN(3) == 0 {
			at = rnd.IntN(400) * 86400
		}
		key := fmt.Sprintf("m,g=%c,h=%c", 'x'+rnd.IntN(3), 'a'+rnd.IntN(6))
		if rnd.IntN(9) == 0 {
			key = fmt.Sprintf("m,h=\u00e9\\ %d", rnd.IntN(3))
		}
		if id := fmt.Sprint(key, at); seen[id] {
			continue
		} else {
			seen[id] = true
		}
		var fields []string
		for _, f := range []string{
			fmt.Sprintf("f=%v", float64(rnd.IntN(60)-30)/4), fmt.Sprintf("i=%di", rnd.IntN(20)-10), fmt.Sprintf("u=%du", rnd.IntN(9)),
			fmt.Sprintf("b=%v", rnd.IntN(2) == 0), fmt.Sprintf("s=\"s%d\"", rnd.IntN(30)),
		} {
			if rnd.IntN(5) > 0 {
				fields = append(fields, f)
			}
		}
		if len(fields) == 0 {
			continue
		}
		line := fmt.Sprintf("%s %s %d\n", key, strings.Join(fields, ","), at)
		lines[0].WriteString(line)
		lines[1+rnd.IntN(parts)].WriteString(line)
	}
	for i := range stores {
		if lines[i].Len() > 0 {
			stores[i].Write(t, "d", "", "s", lines[i].String())
		}
	}
	return stores[0], stores[1:]
}

// TestStatesDoNotShowTheSplit: however points are split into stores, the encoded
// states of these, decoded and merged in any order, are those of one store.
func TestStatesDoNotShowTheSplit(t *testing.T) {
	seed := testseed.Of(t)
	rnd := rand.New(rand.NewPCG(seed, 21))
	for range testseed.Rounds(12) {
		one, split := splitPoints(t, rnd, 1+rnd.IntN(600), 1+rnd.IntN(5))
		for _, q := range stateQueries {
			want := encodedStates(t, one, q)
			merged, rows := mergedStates(t, one, q, want)
			if !bytes.Equal(merged, want) {
				t.Fatalf("seed %d: %s: decoding changes the states", seed, q)
			}
			var parts [][]byte
			for _, i := range rnd.Perm(len(split)) {
				parts = append(parts, encodedStates(t, split[i], q))
			}
			if k := rnd.IntN(len(parts)); k > 0 { // a store may merge for others
				half, _ := mergedStates(t, one, q, parts[:k]...)
				parts = append(parts[k:], half)
			}
			got, gotRows := mergedStates(t, one, q, parts...)
			if gotRows != rows {
				t.Fatalf("seed %d: %s, of %d stores\n%s\nof one\n%s", seed, q, len(split), gotRows, rows)
			}
			if !bytes.Equal(got, want) {
				t.Fatalf("seed %d: %s: the states of %d stores are not those of one", seed, q, len(split))
			}
		}
	}
}

// TestStatesAnswer: the rows that decoded states give are those of the statement.
func TestStatesAnswer(t *testing.T) {
	seed := testseed.Of(t)
	one, _ := splitPoints(t, rand.New(rand.NewPCG(seed, 22)), 500, 1)
	for _, q := range stateQueries {
		if strings.Contains(q, "sample") || strings.HasPrefix(q, "SELECT first") || strings.HasPrefix(q, "SELECT last") {
			continue // other seeds, other ties
		}
		_, got := mergedStates(t, one, q, encodedStates(t, one, q))
		var want strings.Builder
		res, err := collectSelect(t.Context(), one, q, Options{Now: time.Unix(1<<30, 0)})
		if err != nil {
			t.Fatal(q, err)
		}
		for _, r := range res {
			writeSeries(&want, r.Series)
		}
		if got != want.String() {
			t.Errorf("seed %d: %s\ngot\n%s\nwant\n%s", seed, q, got, want.String())
		}
	}
}

func writeSeries(b *strings.Builder, list []*result.Series) {
	for _, s := range list {
		var tuple []string
		for _, tag := range s.Tags {
			tuple = append(tuple, tag.Value)
		}
		fmt.Fprintln(b, s.Name, tuple)
		for i := range s.Rows {
			fmt.Fprint(b, s.Values[0].Ints[i])
			for k := range s.Values[1:] {
				c, _ := cellJSON(&s.Values[1+k], i)
				fmt.Fprint(b, " ", c)
			}
			fmt.Fprintln(b)
		}
	}
}

// goldenStates are two statements over the points of docs/formats/partial.md, and one
// over integers.
func goldenStates(t testing.TB) []byte {
	m := scantest.New()
	m.Create("d", "autogen")
	m.Write(t, "d", "", "s", "m,h=a v=1.5,s=\"on\" 60\nm,h=a v=2,s=\"on\" 61\nm,h=b v=-0.5,s=\"off\" 130")
	m.Write(t, "d", "", "s", "n i=9223372036854775807i,k=-1i,u=18446744073709551615u 60\nn i=1i,k=-1i,u=1u 61")
	var all []byte
	for _, q := range []string{
		"SELECT count(v::float), sum(v::float), first(v::float), mode(s::string) FROM m WHERE time < 1h GROUP BY time(1m), h",
		"SELECT top(v::float, h::tag, 2), s::string FROM m",
		"SELECT mean(i::integer), sum(k::integer), sum(u::unsigned) FROM n",
	} {
		all = append(all, encodedStates(t, m, q)...)
	}
	return all
}

// TestStatesGolden: encoded states have the bytes that they always had.
func TestStatesGolden(t *testing.T) {
	path := filepath.Join("testdata", "partial-v2.golden")
	want, err := os.ReadFile(path)
	if *update && errors.Is(err, os.ErrNotExist) {
		want, err = goldenStates(t), os.WriteFile(path, goldenStates(t), 0o644)
	}
	if err != nil {
		t.Fatal(err)
	}
	if got := goldenStates(t); !bytes.Equal(got, want) {
		t.Errorf("got\n% x\nwant\n% x", got, want)
	}
	first := want[:bytes.LastIndex(want, []byte{partial.StateVersion, 0, 3, 1})] // the second statement has three columns
	page, err := os.ReadFile("../../docs/formats/partial.md")
	if err != nil || !strings.Contains(string(page), hex.Dump(first)) {
		t.Errorf("the example of the format page is not the golden file: %v\n%s", err, hex.Dump(first))
	}
}

// TestStatesRefused: states of another version or statement, and damaged ones.
func TestStatesRefused(t *testing.T) {
	one, _ := splitPoints(t, rand.New(rand.NewPCG(1, 2)), 100, 1)
	q := stateQueries[0]
	good := encodedStates(t, one, q)
	decode := func(part []byte) error {
		r, f := statePlan(t, one, q)
		return f.Decode(r.groups, len(r.l.Dims), false, func(int64) error { return nil }, part)
	}
	seal := func(body []byte) []byte {
		return binary.LittleEndian.AppendUint32(bytes.Clone(body), binio.Checksum(body))
	}
	newer := bytes.Clone(good[:len(good)-4])
	newer[0]++
	for _, c := range []struct {
		part []byte
		want string
	}{
		{nil, "corrupt: partial states: checksum"},
		{good[:len(good)-1], "corrupt: partial states: checksum"},
		{seal(newer), "partial states have version 3, this server reads version 2"},
		{encodedStates(t, one, stateQueries[1]), "partial states belong to another statement"},
		{seal(good[:len(good)-5]), "corrupt at offset"},
		{seal(append(bytes.Clone(good[:len(good)-4]), 0)), "bytes left over"},
	} {
		if err := decode(c.part); err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "corrupt  at", "corrupt at"), c.want) && !errors.Is(err, binio.ErrCorrupt) {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	r, f := statePlan(t, one, q)
	full := fmt.Errorf("%w: of the test", admission.ErrMemory)
	if err := f.Decode(r.groups, len(r.l.Dims), false, func(n int64) error {
		if n > 0 {
			return full
		}
		return nil
	}, good); !errors.Is(err, full) {
		t.Errorf("no memory: %v", err)
	}
}

// FuzzDecodeStates: what is damaged behind the header is an ErrCorrupt, without a
// panic or a large allocation. What decodes has one encoding.
func FuzzDecodeStates(f *testing.F) {
	one, _ := splitPoints(f, rand.New(rand.NewPCG(1, 3)), 60, 1)
	for i, q := range stateQueries {
		part := encodedStates(f, one, q)
		r, p := statePlan(f, one, q)
		f.Add(uint8(i), part[len(p.StateHeader(nil, len(r.l.Dims))):len(part)-4])
	}
	f.Fuzz(func(t *testing.T, i uint8, body []byte) {
		q := stateQueries[int(i)%len(stateQueries)]
		if strings.Contains(q, "tz(") {
			return // prepares many windows
		}
		r, p := statePlan(t, one, q)
		dims := len(r.l.Dims)
		part := append(p.StateHeader(nil, dims), body...)
		part = binary.LittleEndian.AppendUint32(part, binio.Checksum(part))
		left := int64(1 << 20)
		charge := func(n int64) error {
			if left -= n; left < 0 {
				return admission.ErrMemory
			}
			return nil
		}
		groups := &read.GroupTable{}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := p.Decode(groups, dims, false, charge, part)
		runtime.ReadMemStats(&after)
		if n := after.TotalAlloc - before.TotalAlloc; n > 8<<20+uint64(200*len(body)) {
			t.Fatalf("%d bytes allocated for %d", n, len(body))
		}
		if err != nil {
			if !errors.Is(err, binio.ErrCorrupt) && !errors.Is(err, admission.ErrMemory) {
				t.Fatal(err)
			}
			return
		}
		first := p.Encode(nil, groups, dims)
		groups = &read.GroupTable{}
		left = 1 << 40
		if err := p.Decode(groups, dims, false, charge, first); err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(p.Encode(nil, groups, dims), first) {
			t.Fatal("the states have two encodings")
		}
	})
}
