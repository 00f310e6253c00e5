package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
	"time"
)

// The shape of the devops workload.
const (
	DevopsStart    = 1451606400 // s since the epoch: 2016-01-01T00:00:00Z
	DevopsInterval = 10         // s
	DevopsHosts    = 100
	DevopsSteps    = 3 * 24 * 3600 / DevopsInterval

	// DevopsMeasurement is the one measurement of the workload.
	DevopsMeasurement = "cpu"
)

// DevopsFields are the integer fields of every row, in the order of the lines.
var DevopsFields = [10]string{
	"usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait",
	"usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice",
}

// DevopsTags are the tag keys of every row, in the order of the lines, which
// is not sorted.
var DevopsTags = [10]string{
	"hostname", "region", "datacenter", "rack", "os", "arch", "team", "service", "service_version", "service_environment",
}

// Devops makes the cpu metrics of some hosts in the style of TSBS: every ten
// seconds one row of each host, each field a random walk of normal steps
// between 0 and 100. It keeps all values, a byte each, and so knows what any
// query must answer.
type Devops struct {
	hosts, steps int
	values       []uint8 // by step, host, field
	tags         [][10]string
	heads        []string // by host: measurement, tags and the blank
	texts        [10][101]string
	row          int // of hosts*steps
}

// NewDevops returns the generator at its first row. It makes the same rows
// every time; those of fewer steps are the first rows of more steps.
func NewDevops(hosts, steps int) *Devops {
	g := &Devops{hosts: hosts, steps: steps, values: make([]uint8, 0, hosts*steps*len(DevopsFields))}
	r := rand.New(rand.NewPCG(2016, 1))
	for h := range hosts {
		g.tags = append(g.tags, devopsTags(r, h))
		head := DevopsMeasurement
		for i, k := range DevopsTags {
			head += "," + k + "=" + g.tags[h][i]
		}
		g.heads = append(g.heads, head+" ")
	}
	walks := make([]float64, hosts*len(DevopsFields))
	for i := range walks {
		walks[i] = 100 * r.Float64()
	}
	for range steps {
		for i, v := range walks {
			g.values = append(g.values, uint8(v))
			walks[i] = clamp(v+r.NormFloat64(), 0, 100)
		}
	}
	for f, name := range DevopsFields {
		for v := range g.texts[f] {
			g.texts[f][v] = name + "=" + strconv.Itoa(v) + "i,"
			if f == len(DevopsFields)-1 {
				g.texts[f][v] = name + "=" + strconv.Itoa(v) + "i "
			}
		}
	}
	return g
}

func devopsTags(r *rand.Rand, host int) [10]string {
	regions := []struct {
		name  string
		zones int
	}{
		{"us-east-1", 4},
		{"us-west-1", 2},
		{"us-west-2", 3},
		{"eu-west-1", 3},
		{"eu-central-1", 2},
		{"ap-southeast-1", 2},
		{"ap-southeast-2", 2},
		{"ap-northeast-1", 2},
		{"sa-east-1", 3},
	}
	pick := func(s ...string) string { return s[r.IntN(len(s))] }
	region := regions[r.IntN(len(regions))]
	return [10]string{
		"host_" + strconv.Itoa(host), region.name, region.name + string(rune('a'+r.IntN(region.zones))), strconv.Itoa(r.IntN(100)),
		pick("Ubuntu16.10", "Ubuntu16.04LTS", "Ubuntu15.10"), pick("x64", "x86"), pick("SF", "NYC", "LON", "CHI"),
		strconv.Itoa(r.IntN(20)), strconv.Itoa(r.IntN(2)), pick("production", "staging", "test"),
	}
}

// Hosts returns the number of hosts.
func (g *Devops) Hosts() int { return g.hosts }

// Steps returns the number of rows of each host.
func (g *Devops) Steps() int { return g.steps }

// Next appends up to n lines to dst and returns it with the number of lines;
// 0 at the end.
func (g *Devops) Next(dst []byte, n int) ([]byte, int) {
	made := min(n, g.hosts*g.steps-g.row)
	for range made {
		dst = append(dst, g.heads[g.row%g.hosts]...)
		for f, v := range g.values[g.row*len(DevopsFields):][:len(DevopsFields)] {
			dst = append(dst, g.texts[f][v]...)
		}
		dst = strconv.AppendInt(dst, DevopsTime(g.row/g.hosts), 10)
		dst = append(dst, '\n')
		g.row++
	}
	return dst, made
}

// DevopsTime returns the time of a step's rows (ns since the epoch).
func DevopsTime(step int) int64 {
	return (DevopsStart + int64(step)*DevopsInterval) * int64(time.Second)
}

// Between returns the steps [first, last) whose time (ns) is in [from, to).
func (g *Devops) Between(from, to int64) (first, last int) {
	step := func(t int64) int {
		n := t - DevopsTime(0)
		if n <= 0 {
			return 0
		}
		const ns = DevopsInterval * int64(time.Second)
		return int(min((n+ns-1)/ns, int64(g.steps)))
	}
	first = step(from)
	return first, max(first, step(to))
}

// Tag returns the value of a host's tag.
func (g *Devops) Tag(host int, key string) (string, bool) {
	for i, k := range DevopsTags {
		if k == key {
			return g.tags[host][i], true
		}
	}
	return "", false
}

// Value returns one value; field is an index in DevopsFields.
func (g *Devops) Value(host, step, field int) int64 {
	return int64(g.values[(step*g.hosts+host)*len(DevopsFields)+field])
}

// Max returns the largest value of a field of the hosts in steps
// [first, last), false if there is none.
func (g *Devops) Max(hosts []int, field, first, last int) (v int64, ok bool) {
	for s := first; s < last; s++ {
		for _, h := range hosts {
			v, ok = max(v, g.Value(h, s, field)), true
		}
	}
	return v, ok
}

// Mean returns the mean of a field of a host in steps [first, last), false if
// there is none.
func (g *Devops) Mean(host, field, first, last int) (float64, bool) {
	sum := int64(0)
	for s := first; s < last; s++ {
		sum += g.Value(host, s, field)
	}
	return float64(sum) / float64(last-first), last > first
}

// DevopsStream makes endless rows of a devops kind for one sender: a block of
// lines is made once and only its times are rewritten, so that a row costs
// the sender next to nothing.
type DevopsStream struct {
	block []byte
	ends  []int // by line: the end of its time, where the newline is
	hosts int
	line  int // next in the block
	step  int // of the block's first line
}

// StreamLines is the number of lines of a stream's block; requests should hold
// a divisor of it.
const StreamLines = 10_000

// NewDevopsStream returns a stream of a hundred hosts that no other sender's
// stream has.
func NewDevopsStream(sender int) *DevopsStream {
	g := NewDevops(DevopsHosts, StreamLines/DevopsHosts)
	for h := range g.heads {
		g.tags[h][0] = fmt.Sprintf("sender_%d_%d", sender, h)
		head := DevopsMeasurement
		for i, k := range DevopsTags {
			head += "," + k + "=" + g.tags[h][i]
		}
		g.heads[h] = head + " "
	}
	s := &DevopsStream{hosts: DevopsHosts}
	for {
		var n int
		if s.block, n = g.Next(s.block, 1); n == 0 {
			return s
		}
		s.ends = append(s.ends, len(s.block)-1)
	}
}

// Next returns the next n lines, fewer at the end of the block. They are valid
// until the next call.
func (s *DevopsStream) Next(n int) ([]byte, int) {
	if s.line == len(s.ends) {
		s.line = 0
		s.step += len(s.ends) / s.hosts
		var text []byte
		for i, end := range s.ends {
			if i%s.hosts == 0 {
				text = strconv.AppendInt(text[:0], DevopsTime(s.step+i/s.hosts), 10)
			}
			copy(s.block[end-len(text):], text)
		}
	}
	begin := 0
	if s.line > 0 {
		begin = s.ends[s.line-1] + 1
	}
	n = min(n, len(s.ends)-s.line)
	s.line += n
	return s.block[begin : s.ends[s.line-1]+1], n
}
