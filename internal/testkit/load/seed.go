package load

import (
	"math"
	"math/rand/v2"
	"strconv"
)

// The shape of the seed workload.
const (
	SeedStart   = 1428777120 // s since the epoch, the first period
	SeedPeriods = 272        // of one minute
	SeedRows    = 8_380_000
	SeedSeries  = 285_522
	seedClean   = 5_927 // tag combinations that carry almost all rows
	seedDirty   = SeedSeries - seedClean
	seedCmds    = 48
	seedApps    = 150
	seedShuffle = 16 // periods between changes of the rows' order

	// SeedMeasurement is the one measurement of the workload.
	SeedMeasurement = "proc"
)

// Seed makes the seed workload's lines in order of time. Every row has its own
// (series, time), so exactly SeedRows points are stored.
type Seed struct {
	// Periods is how many periods there are, SeedPeriods unless set lower
	// before the first row.
	Periods int
	// Counts is the number of rows per period made so far.
	Counts [SeedPeriods]int64
	// Sums is, by vCmdid, the sum of totalCount per period over the rows made
	// so far that have a vAppid; Has tells in which periods there are any.
	Sums map[string]*[SeedPeriods]int64
	Has  map[string]*[SeedPeriods]bool

	r      *rand.Rand
	clean  []combination
	order  []int
	dirty  int
	period int
	row    int // in the period
	rows   int
}

type combination struct {
	tags     string
	cmd      string
	app      bool
	rate, ms float64
}

// NewSeed returns the generator at its first row. It makes the same rows
// every time.
func NewSeed() *Seed {
	g := &Seed{Periods: SeedPeriods, Sums: map[string]*[SeedPeriods]int64{}, Has: map[string]*[SeedPeriods]bool{}}
	g.r = rand.New(rand.NewPCG(1428777120, 838))
	results := []string{"0", "0", "0", "0", "-1", "1001", "1002", "2001", "2005", "3007", "4004", "5000", "50003"}
	seen := map[string]bool{}
	for len(g.clean) < seedClean {
		cmd := seedCmd(int(seedCmds * math.Pow(g.r.Float64(), 1.7)))
		app := ""
		if g.r.IntN(100) >= 8 {
			app = seedApp(int(seedApps * math.Pow(g.r.Float64(), 1.5)))
		}
		c := combine(results[g.r.IntN(len(results))], app, cmd)
		if seen[c.tags] {
			continue
		}
		seen[c.tags] = true
		c.rate = math.Exp(g.r.NormFloat64()*1.5 + 2)
		c.ms = 5 * math.Exp(g.r.NormFloat64()+1)
		g.clean = append(g.clean, c)
		g.order = append(g.order, len(g.order))
	}
	return g
}

func seedCmd(i int) string { return "0x" + strconv.FormatInt(int64(4096+37*i), 16) }
func seedApp(i int) string { return strconv.Itoa(1_000_000 + 7919*i) }

func combine(result, app, cmd string) combination {
	tags := ",iResult=" + result
	if app != "" {
		tags += ",vAppid=" + app
	}
	return combination{tags: tags + ",vCmdid=" + cmd, cmd: cmd, app: app != ""}
}

// dirtyCombination returns the i-th combination that is seen once: one of its
// tags holds rubbish, which differs for every i.
func (g *Seed) dirtyCombination(i int) combination {
	rubbish := mix(uint64(i) + 1)
	app, cmd := seedApp(g.r.IntN(seedApps)), seedCmd(g.r.IntN(seedCmds))
	switch k := i % 100; {
	case k < 25:
		return combine("0", "", "cmd%"+strconv.FormatUint(rubbish, 16))
	case k < 70:
		return combine("0", strconv.FormatUint(rubbish, 16), cmd)
	default:
		return combine(strconv.FormatInt(-int64(i)*7001-3, 10), app, cmd)
	}
}

// mix is a bijection of 64-bit words (splitmix64's finalizer), so that equal
// results mean equal arguments.
func mix(x uint64) uint64 {
	x ^= x >> 30
	x *= 0xbf58476d1ce4e5b9
	x ^= x >> 27
	x *= 0x94d049bb133111eb
	return x ^ x>>31
}

// share returns how many of total fall to period p when spread evenly.
func share(total, p int) int {
	upTo := func(p int) int64 { return int64(total) * int64(p) / SeedPeriods }
	return int(upTo(p+1) - upTo(p))
}

// Next appends up to n lines to dst and returns it with the number of lines;
// 0 at the end.
func (g *Seed) Next(dst []byte, n int) ([]byte, int) {
	made := 0
	for made < n && g.period < g.Periods {
		rows, dirty := share(SeedRows, g.period), share(seedDirty, g.period)
		if g.row == rows {
			g.period, g.row = g.period+1, 0
			continue
		}
		if g.row == 0 && g.period%seedShuffle == 0 {
			g.r.Shuffle(len(g.order), func(a, b int) { g.order[a], g.order[b] = g.order[b], g.order[a] })
		}
		// Dirty rows lie evenly between the clean ones.
		before, after := int(int64(g.row)*int64(dirty)/int64(rows)), int(int64(g.row+1)*int64(dirty)/int64(rows))
		if after > before {
			c := g.dirtyCombination(g.dirty)
			g.dirty++
			dst = g.line(dst, c, 0, 1, int64(1+g.r.IntN(3000)))
		} else {
			k := g.row - before
			c := g.clean[g.order[k%seedClean]]
			total := max(1, int64(c.rate*(0.5+g.r.Float64())))
			dst = g.line(dst, c, k/seedClean, total, int64(float64(total)*c.ms*(0.7+0.6*g.r.Float64())))
		}
		g.row++
		g.rows++
		made++
	}
	return dst, made
}

// line appends the turn-th row of c in the present period.
func (g *Seed) line(dst []byte, c combination, turn int, total, ms int64) []byte {
	seconds := SeedStart + int64(g.period)*60 + int64(turn)*10
	if turn > 5 {
		panic("seed workload: more rows of a combination than places in a period")
	}
	dst = append(dst, SeedMeasurement...)
	dst = append(dst, c.tags...)
	dst = append(dst, " totalCount="...)
	dst = strconv.AppendInt(dst, total, 10)
	dst = append(dst, "i,dProcessTime="...)
	dst = strconv.AppendInt(dst, ms, 10)
	dst = append(dst, "i "...)
	dst = strconv.AppendInt(dst, seconds, 10)
	dst = append(dst, "000000000\n"...)
	g.Counts[g.period]++
	if c.app {
		sums, has := g.Sums[c.cmd], g.Has[c.cmd]
		if sums == nil {
			sums, has = new([SeedPeriods]int64), new([SeedPeriods]bool)
			g.Sums[c.cmd], g.Has[c.cmd] = sums, has
		}
		sums[g.period] += total
		has[g.period] = true
	}
	return dst
}
