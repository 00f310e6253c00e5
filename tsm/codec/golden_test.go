package codec

import (
	"encoding/hex"
	"flag"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "rewrite testdata/blocks.golden; only for a new format version")

const (
	goldenPath = "testdata/blocks.golden"
	formatPage = "../../docs/formats/codecs.md"
)

// goldenCase has the block of some values and a check of a block against them.
type goldenCase struct {
	name  string
	enc   string
	block []byte
	check func(block []byte) error
}

func goldenOf[T any](name, enc string, v []T, encode func([]byte, []T) []byte, decode func([]T, []byte, int) ([]T, error), equal func(a, b T) bool) goldenCase {
	return goldenCase{name, enc, encode(nil, v), func(block []byte) error {
		got, err := decode(nil, block, len(v))
		if err == nil && !slices.EqualFunc(got, v, equal) {
			err = fmt.Errorf("decodes to %v, want %v", got, v)
		}
		return err
	}}
}

// dense is the case of the block's dense form.
func (c goldenCase) dense(kind Kind) goldenCase {
	c.block, _, _ = AppendDense(nil, c.block, 64, kind)
	return c
}

func tenth(v []int64) []float64 {
	out := make([]float64, len(v))
	for i, x := range v {
		out[i] = float64(x) / 10
	}
	return out
}

func goldenCases() []goldenCase {
	integers := func(name, enc string, v ...int64) goldenCase {
		return goldenOf(name, enc, v, AppendIntegers, DecodeIntegers, same)
	}
	unsigneds := func(name, enc string, v ...uint64) goldenCase {
		return goldenOf(name, enc, v, AppendUnsigneds, DecodeUnsigneds, same)
	}
	times := func(name, enc string, v ...int64) goldenCase {
		return goldenOf(name, enc, v, AppendTimes, DecodeTimes, same)
	}
	floatsOf := func(name, enc string, v ...float64) goldenCase {
		return goldenOf(name, enc, v, AppendFloats, DecodeFloats, sameBits)
	}
	booleans := func(name, enc string, v ...bool) goldenCase {
		return goldenOf(name, enc, v, AppendBooleans, DecodeBooleans, same)
	}
	text := func(name, enc string, v ...string) goldenCase {
		return goldenOf(name, enc, v, AppendStrings, DecodeStrings, same)
	}
	repeat := func(x float64, n int) []float64 { return slices.Repeat([]float64{x}, n) }
	outlier := make([]int64, 40)
	jitter := make([]int64, 80)
	bursts := make([]int64, 300)
	for i := range bursts {
		bursts[i] = int64(i*i%31) >> (4 - i/50%4) << (i / 50 % 4 * 6)
	}
	for i := range outlier {
		outlier[i] = 10 + int64(i*i%7)
	}
	outlier[33] = -5000
	for i := range jitter {
		jitter[i] = (1_700_000_000_000 + int64(i)*10_000 + int64(i*i%13)) * 1e6
	}
	tenths := make([]float64, 20)
	for i := range tenths {
		tenths[i] = float64(200+i*i%9) / 10
	}
	tenths[5] = math.NaN()
	roots := make([]float64, 64)
	for i := range roots {
		roots[i] = math.Sqrt(float64(300 + i*i%61))
	}
	singles := make([]float64, 70)
	for i := range singles {
		singles[i] = float64(float32(20 + float64(i*i*i%97)/10))
	}
	odds := make([]float64, 32)
	for i := range odds {
		odds[i] = []float64{1.0 / 3, 0.7 / 11, 500.0 / 7}[i*i%7%3]
	}
	yes := slices.Repeat([]bool{true}, 50)
	drift, counter := make([]int64, 64), make([]int64, 64)
	count := int64(1000)
	for i := range drift {
		drift[i] = 50 + 3*int64([]int{0, 0, 1, 0, -1, 0, 0, 2, 1, 0, -2, -1, 0, 0, 1, -1}[i*i%61%16])
		count += []int64{500, 512, 503, 590, 505, 500, 541, 502, 520, 509, 501, 507}[i*i%53%12]
		if i == 20 {
			count += 1e6
		}
		counter[i] = count
	}
	clock, rising := make([]int64, 24), make([]float64, 18)
	at, period := epoch, int64(10e9)
	for i := range clock {
		clock[i] = at
		period += int64(i * i % 7)
		at += period
	}
	for i := range rising {
		rising[i] = float64(i*i+250) / 10
	}
	shares := make([]float64, 64)
	ticks, all := 1000.0, 8000.0 // of a clock, in seconds
	for i := range shares {
		n, m := ticks+float64(300+i*i%17)/100, all+float64(998+i*i%5)/100
		shares[i] = 100 * (n - ticks) / (m - all)
		ticks, all = n, m
	}
	large := make([]float64, 64)
	for i, x := range drift {
		large[i] = math.Ldexp(float64(1200+5*int64(i)+x), 70)
	}
	return []goldenCase{
		integers("integer 1", "const", 1),
		integers("integers equal", "const", -300, -300, -300),
		times("times regular", "linear", 1_700_000_000_000_000_000, 1_700_000_010_000_000_000, 1_700_000_020_000_000_000),
		integers("integers runs", "runs", append(slices.Repeat([]int64{5}, 30), slices.Repeat([]int64{70000}, 34)...)...),
		integers("integers plain", "packed", 103, 100, 107, 101, 106, 102, 100, 105),
		integers("integers delta", "packed", 1000, 2024, 3072, 4104, 5120, 6184),
		integers("integers outlier", "packed", outlier...),
		times("times jitter", "packed", jitter...),
		integers("integers bursts", "simple8b", bursts...),
		times("times of a drifting clock", "packed", clock...),
		floatsOf("floats rising faster", "alp", rising...),
		unsigneds("unsigneds raw", "raw", 1<<63, 5, 1<<62+99, math.MaxUint64, 1<<61+7),
		floatsOf("float 1", "const", 1),
		floatsOf("float 12.34", "alp", 12.34),
		floatsOf("floats third", "const", 1.0/3, 1.0/3),
		floatsOf("floats decimal", "alp", 20.1, 20.3, 20.2, 20.7, 19.9),
		floatsOf("floats decimal, NaN", "alp", tenths...),
		floatsOf("floats runs", "runs", append(repeat(1.5, 20), repeat(2.25, 20)...)...),
		floatsOf("floats gorilla", "gorilla", 1.0/3, 1.0/3, 2.0/3, 4.0/3, 1.0/3),
		goldenOf("floats dictionary", "dict", odds, appendFloatDict, DecodeFloats, sameBits),
		floatsOf("floats of 32 bits", "packed", singles...),
		floatsOf("floats split", "alp-rd", roots...).dense(Floats),
		floatsOf("floats quotients", "quotient", shares...).dense(Floats),
		floatsOf("floats raw", "raw", math.Float64frombits(0x0123456789abcdef), math.Float64frombits(0xfedcba9876543210)),
		booleans("boolean true", "const", true),
		booleans("booleans bits", "bits", true, false, true, true, false, false, true, false, true),
		booleans("booleans runs", "runs", append(yes, make([]bool, 50)...)...),
		integers("integers drift, dense", "rice", drift...).dense(Integers),
		integers("integers counter, dense", "rice", counter...).dense(Integers),
		floatsOf("floats drift, dense", "alp", tenth(drift)...).dense(Floats),
		floatsOf("floats beyond decimals, dense", "rice", large...).dense(Floats),
		text("string ok", "const", "ok"),
		text("strings raw", "raw", "alpha", "beta", "gamma"),
		text("strings dictionary", "dict", "up", "up", "down", "up", "up", "down", "down", "up"),
		text("strings snappy", "snappy", "GET /index.html", "GET /index.htm", "GET /index.png"),
	}
}

// TestGolden holds encoder and decoder to the recorded bytes, and the format
// page to its examples.
func TestGolden(t *testing.T) {
	cases := goldenCases()
	if *update {
		var out strings.Builder
		for _, c := range cases {
			fmt.Fprintf(&out, "%s: %s\n", c.name, hex.EncodeToString(c.block))
		}
		if err := os.WriteFile(goldenPath, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	data, err := os.ReadFile(goldenPath)
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(formatPage)
	if err != nil {
		t.Fatal(err)
	}
	recorded := map[string]string{}
	for line := range strings.Lines(string(data)) {
		name, text, _ := strings.Cut(strings.TrimSpace(line), ": ")
		recorded[name] = text
	}
	for _, c := range cases {
		want, err := hex.DecodeString(recorded[c.name])
		if err != nil || len(want) == 0 {
			t.Errorf("%s: no recorded block (%v)", c.name, err)
			continue
		}
		if err := c.check(want); err != nil {
			t.Errorf("%s: recorded block: %v", c.name, err)
		}
		if !slices.Equal(c.block, want) {
			t.Errorf("%s: encoded as\n%x, recorded\n%x", c.name, c.block, want)
		}
		if formOf(want).name != c.enc {
			t.Errorf("%s: recorded block is %s, want %s", c.name, formOf(want).name, c.enc)
		}
		if example := fmt.Sprintf("% x", want); len(want) <= 48 && !strings.Contains(string(page), example) {
			t.Errorf("%s: %s lacks the example\n%s", c.name, formatPage, example)
		}
	}
}
