package lineproto

import (
	"bytes"
	"fmt"
	"math"
	"math/rand"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/influxdata/line-protocol/v2/lineprotocol"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

func newRand(t testing.TB) *rand.Rand {
	return rand.New(rand.NewSource(int64(testseed.Of(t))))
}

func pick(r *rand.Rand, s ...string) string { return s[r.Intn(len(s))] }

// randomLine writes a line that is mostly well formed. odd adds what only one
// of the two protocols' readings knows.
func randomLine(r *rand.Rand, odd bool) string {
	var b strings.Builder
	name := func() {
		b.WriteString(pick(r, "a", "b", "cpu", "usage_user", "x y", "é", "field_key_of_some_length", "with,comma", "e=q", "t1")[:])
	}
	escaped := func() {
		var c strings.Builder
		c.WriteString(b.String())
		b.Reset()
		name()
		s := b.String()
		b.Reset()
		for i := 0; i < len(s); i++ {
			if strings.IndexByte(", =", s[i]) >= 0 {
				c.WriteByte('\\')
			}
			c.WriteByte(s[i])
		}
		b.WriteString(c.String())
	}
	b.WriteString(pick(r, "m", "cpu", "disk", `a\ b`, `a\,b`, "a=b"))
	for range r.Intn(4) {
		b.WriteByte(',')
		escaped()
		b.WriteString(fmt.Sprint(r.Intn(3)))
		b.WriteByte('=')
		escaped()
	}
	b.WriteByte(' ')
	for i := range 1 + r.Intn(4) {
		if i > 0 {
			b.WriteByte(',')
		}
		escaped()
		b.WriteByte('=')
		switch r.Intn(9) {
		case 0:
			fmt.Fprintf(&b, "%di", int64(r.Uint64())>>r.Intn(64))
		case 1:
			fmt.Fprintf(&b, "%du", r.Uint64()>>r.Intn(64))
		case 2:
			fmt.Fprintf(&b, "%.*f", r.Intn(18), r.NormFloat64()*math.Pow10(r.Intn(9)))
		case 3:
			fmt.Fprintf(&b, "%v", math.Float64frombits(r.Uint64()))
		case 4:
			b.WriteString(pick(r, "t", "T", "true", "True", "TRUE", "f", "F", "false", "False", "FALSE"))
		case 5:
			b.WriteString(pick(r, `""`, `"s"`, `"with blanks, = and more"`, `"a\"b"`, `"a\\b"`, `"é"`, `"\x, \\\" b"`, `"\"`))
		case 6:
			fmt.Fprintf(&b, "%d.%02d", r.Intn(100), r.Intn(100))
		case 7:
			fmt.Fprintf(&b, "%di", r.Intn(101))
		case 8:
			if odd {
				b.WriteString(pick(r, "1_0", "+1", "nan", "-inf", "0x1", "0x7ff0000000000002", "0xfff0000000000000", "0x7fefffffffffffff", "1e5", ".5", "5.", `"x"y`, `"\n"`, "\"a\nb\"", `"`, "1e999"))
			} else {
				b.WriteString("1")
			}
		}
	}
	switch r.Intn(6) {
	case 0:
	case 1:
		fmt.Fprintf(&b, " %d", int64(r.Uint64())>>r.Intn(64))
	default:
		fmt.Fprintf(&b, " %d", 1451606400000000000+r.Int63n(1e15))
	}
	return b.String()
}

// mutate changes a few bytes.
func mutate(r *rand.Rand, s string, alphabet string) string {
	b := []byte(s)
	for range r.Intn(4) {
		i := r.Intn(len(b) + 1)
		c := alphabet[r.Intn(len(alphabet))]
		switch {
		case r.Intn(3) == 0:
			b = append(b[:i], append([]byte{c}, b[i:]...)...)
		case i == len(b):
		case r.Intn(2) == 0:
			b[i] = c
		default:
			b = append(b[:i], b[i+1:]...)
		}
		if len(b) == 0 {
			return "m v=1"
		}
	}
	return string(b)
}

// TestFastEqualsSlow reads random bodies by the fast and the slow path, with
// tables in all states.
func TestFastEqualsSlow(t *testing.T) {
	r := newRand(t)
	const alphabet = " ,=\\\"\n\t\r#\x00abi0123456789.-+eutTfF\xff"
	for range 3000 {
		var lines []string
		for range 1 + r.Intn(4) {
			lines = append(lines, mutate(r, randomLine(r, true), alphabet))
		}
		var body []string
		for range 1 + r.Intn(8) {
			body = append(body, lines[r.Intn(len(lines))])
		}
		unit := []int64{1, 1, 1000, 1e9}[r.Intn(4)]
		parseAll(t, strings.Join(body, "\n")+pick(r, "", "\n"), Options{Unit: unit, Now: r.Int63()})
	}
}

// TestDifferential holds single lines against line-protocol/v2, which agrees
// with InfluxDB 1.x save for what explained lists.
func TestDifferential(t *testing.T) {
	r := newRand(t)
	both, neither, apart := 0, 0, map[string]int{}
	rounds := 40_000
	if testing.Short() {
		rounds = 10_000
	}
	for range rounds {
		line := randomLine(r, r.Intn(4) == 0)
		if r.Intn(2) == 0 {
			line = mutate(r, line, " ,=\\\"abi0123456789.-+eutTfF_\r\t\xff")
		}
		if strings.Contains(line, "\n") {
			continue
		}
		got, ok := oneLine(line)
		want, wantOK := byReference(line)
		switch why := explained(line, ok, wantOK); {
		case ok && wantOK && got == want:
			both++
		case !ok && !wantOK:
			neither++
		case why != "":
			apart[why]++
		default:
			t.Fatalf("%q:\nours %v %s\nv2   %v %s", line, ok, got, wantOK, want)
		}
	}
	t.Logf("both accept %d, both refuse %d, apart %v", both, neither, apart)
	if both < rounds/4 || neither < rounds/40 {
		t.Error("the generator is out of balance")
	}
}

// explained names the known difference that line shows, or "".
func explained(line string, ours, reference bool) string {
	fields := line
	if i := unescapedSpace(line); i >= 0 {
		fields = line[i:]
	}
	switch {
	case !utf8.ValidString(line):
		return "invalid UTF-8 is refused by v2"
	case strings.ContainsAny(line, "\t\x00"):
		return "control characters are refused by v2, blanks elsewhere are skipped"
	case strings.Contains(line, "\r"):
		return "CR ends a line in v2"
	case strings.Contains(fields, "_") && reference && !ours:
		return "underscores in numbers are accepted by v2"
	case reference && !ours && strings.Contains(fields, "=+"), reference && !ours && strings.Contains(fields, " +"):
		return "a plus sign is accepted by v2"
	case reference && !ours && duplicateTags(line):
		return "duplicate tags are accepted by v2"
	case reference && !ours && strings.Contains(fields, "922337203685477580"):
		return "the ends of int64 are times in v2"
	case strings.Contains(line, `\`):
		return "backslashes"
	case ours && !reference && strings.Contains(line, `"`):
		return "text behind a closing quote is refused by v2"
	case ours && !reference && (strings.Contains(fields, "=0x7ff") || strings.Contains(fields, "=0xfff")):
		return "the bits of NaN and infinities are read by ours"
	case ours && !reference && strings.Contains(line, "=="):
		return "a tag value may begin with an equals sign in 1.x"
	case ours && !reference && strings.HasPrefix(strings.TrimLeft(line, " "), "#"):
		return "comment"
	}
	return ""
}

func unescapedSpace(s string) int {
	for i := range len(s) {
		if s[i] == ' ' && (i == 0 || s[i-1] != '\\') {
			return i
		}
	}
	return -1
}

func duplicateTags(line string) bool {
	i := unescapedSpace(line)
	seen := map[string]bool{}
	for j, kv := range strings.Split(strings.ReplaceAll(line[:max(i, 0)], `\,`, ""), ",") {
		k, _, _ := strings.Cut(strings.ReplaceAll(kv, `\=`, "~"), "=")
		if j > 0 && seen[k] {
			return true
		}
		seen[k] = j > 0
	}
	return false
}

// oneLine parses a line and renders its point with the fields in a canonical
// form.
func oneLine(line string) (string, bool) {
	var p Parser
	var b point.Batch
	if n, err := p.Parse(&b, point.NewTable(1), []byte(line), Options{Now: 7}); n == 0 || err != nil {
		return "", n == 0 && err == nil
	}
	return render(&b), true
}

// byReference is oneLine by line-protocol/v2.
func byReference(line string) (string, bool) {
	d := lineprotocol.NewDecoderWithBytes([]byte(line))
	if !d.Next() {
		return "", true
	}
	m, err := d.Measurement()
	if err != nil {
		return "", false
	}
	measurement := string(m)
	var tags model.Tags
	for {
		k, v, err := d.NextTag()
		if err != nil {
			return "", false
		}
		if k == nil {
			break
		}
		tags = append(tags, model.Tag{Key: string(k), Value: string(v)})
	}
	tags.Sort()
	table := point.NewTable(1)
	var b point.Batch
	row := point.Row{Series: table.Series(string(model.AppendSeriesKey(nil, measurement, tags)))}
	var fields []column.Field
	for {
		k, v, err := d.NextField()
		if err != nil {
			return "", false
		}
		if k == nil {
			break
		}
		f := column.Field{Key: string(k)}
		var w uint64
		switch v.Kind() {
		case lineprotocol.Float:
			f.Type, w = model.Float, math.Float64bits(v.FloatV())
		case lineprotocol.Int:
			f.Type, w = model.Integer, uint64(v.IntV())
		case lineprotocol.Uint:
			f.Type, w = model.Unsigned, v.UintV()
		case lineprotocol.Bool:
			f.Type = model.Boolean
			if v.BoolV() {
				w = 1
			}
		case lineprotocol.String:
			f.Type, w = model.String, column.StringWord(len(b.Strings), len(v.BytesV()))
			b.Strings = append(b.Strings, v.BytesV()...)
		}
		// The last value of a key wins; of another type, the point is refused.
		at := -1
		for i := range fields {
			if fields[i].Key == f.Key {
				at = i
			}
		}
		switch {
		case at < 0:
			fields = append(fields, f)
			b.Values = append(b.Values, w)
		case fields[at].Type != f.Type:
			return "", false
		default:
			b.Values[at] = w
		}
	}
	at, err := d.Time(lineprotocol.Nanosecond, time.Unix(0, 7))
	if err != nil {
		return "", false
	}
	if row.Time = at.UnixNano(); row.Time < model.MinTime || row.Time > model.MaxTime {
		return "", false
	}
	row.Layout = table.Layout(measurement, fields)
	b.Rows = append(b.Rows, row)
	return render(&b), true
}

// TestParallel lets many parsers fill one table and checks that every series
// and layout is one pointer.
func TestParallel(t *testing.T) {
	table := point.NewTable(1)
	var bodies [][]byte
	for i := range dataSets {
		bodies = append(bodies, dataSets[i].bodies(700, 2, 500)...)
	}
	var mu sync.Mutex
	series := map[string]*point.Series{}
	layouts := map[string]*point.Layout{}
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			var p Parser
			var b point.Batch
			r := rand.New(rand.NewSource(int64(g)))
			for range 3 {
				for _, i := range r.Perm(len(bodies)) {
					b.Reset()
					if n, err := p.Parse(&b, table, bodies[i], Options{}); n != 500 || err != nil {
						t.Error(n, err)
						return
					}
					mu.Lock()
					for _, row := range b.Rows {
						s := series[row.Series.Key()]
						if s != nil && s != row.Series {
							t.Errorf("two series %q", s.Key())
						}
						series[row.Series.Key()] = row.Series
						key := fmt.Sprint(row.Layout.Measurement, row.Layout.Fields)
						if l := layouts[key]; l != nil && l != row.Layout {
							t.Errorf("two layouts %s", key)
						}
						layouts[key] = row.Layout
					}
					mu.Unlock()
				}
			}
		}()
	}
	wg.Wait()
	if len(series) != 700 || table.Bytes() == 0 {
		t.Errorf("%d series", len(series))
	}
}

// FuzzParse checks what every body must fulfil: no panic, the same by every
// path, batches that keep their promises, and every line accounted for.
func FuzzParse(f *testing.F) {
	r := rand.New(rand.NewSource(1))
	for range 30 {
		f.Add([]byte(randomLine(r, true) + "\n" + randomLine(r, false)))
	}
	f.Add(bytes.Repeat([]byte("m,t=a v=1i 1\n"), 3))
	f.Fuzz(func(t *testing.T, body []byte) {
		parseAll(t, string(body), Options{Now: 1})
		if !bytes.ContainsAny(body, "\n\"\\") {
			got, ok := oneLine(string(body))
			want, wantOK := byReference(string(body))
			if ok && wantOK && got != want && explained(string(body), ok, wantOK) == "" {
				t.Fatalf("%q:\nours %s\nv2   %s", body, got, want)
			}
		}
	})
}
