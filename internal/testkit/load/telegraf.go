package load

import (
	"fmt"
	"math/rand/v2"
	"strconv"
)

// Telegraf makes what the agents of some hosts send: cpu, mem, disk, net and
// system every ten seconds, with jitter of nanoseconds, and of every hundred
// lines one late by some minutes or repeated.
type Telegraf struct {
	// Points is, by measurement, the number of distinct points made so far.
	Points map[string]int64

	hosts, steps int
	start        int64 // ns
	r            *rand.Rand
	step, host   int
	state        []hostState
	held         [][]byte // late lines
}

type hostState struct {
	user, system float64
	used         int64
	recv, sent   int64
	uptime       int64
	disks        int64
}

const telegrafInterval = 10_000_000_000

// NewTelegraf returns a generator for hosts agents and steps intervals from
// start (s since the epoch). It makes the same lines every time.
func NewTelegraf(hosts, steps int, start int64) *Telegraf {
	g := &Telegraf{Points: map[string]int64{}, hosts: hosts, steps: steps, start: start * 1e9, r: rand.New(rand.NewPCG(10, 50))}
	for range hosts {
		g.state = append(g.state, hostState{user: 20, system: 5, used: 4 << 30, uptime: 100_000})
	}
	return g
}

// Next appends the lines of one host at one time to dst; false at the end.
func (g *Telegraf) Next(dst []byte) ([]byte, bool) {
	if g.step == g.steps {
		for _, l := range g.held {
			dst = append(dst, l...)
		}
		more := len(g.held) > 0
		g.held = nil
		return dst, more
	}
	s := &g.state[g.host]
	s.user = clamp(s.user+g.r.NormFloat64(), 0, 80)
	s.system = clamp(s.system+g.r.NormFloat64()/2, 0, 20)
	s.used = int64(clamp(float64(s.used+int64(g.r.NormFloat64()*1e6)), 1<<30, 15<<30)) &^ 4095
	s.recv += int64(g.r.IntN(200_000))
	s.sent += int64(g.r.IntN(90_000))
	s.uptime += 10
	ts := g.start + int64(g.step)*telegrafInterval + int64(g.r.IntN(900_000_000))
	host := fmt.Sprintf("host-%03d.example.com", g.host)
	emit := func(measurement, rest string) {
		line := measurement + rest + " " + strconv.FormatInt(ts, 10) + "\n"
		g.Points[measurement]++
		switch k := g.r.IntN(200); {
		case k == 0:
			g.held = append(g.held, []byte(line))
			return
		case k == 1:
			dst = append(dst, line...)
		}
		dst = append(dst, line...)
	}
	for cpu, load := range []float64{1, 0.7, 1.3} {
		user := s.user * load
		emit("cpu", fmt.Sprintf(",cpu=cpu%d,host=%s usage_user=%v,usage_system=%v,usage_idle=%v", cpu, host, user, s.system, 100-user-s.system))
	}
	emit("mem", fmt.Sprintf(",host=%s total=%di,used=%di,free=%di,used_percent=%v", host, int64(16)<<30, s.used, int64(16)<<30-s.used, float64(s.used)/float64(16<<30)*100))
	if g.step%6 == 0 {
		for i, p := range []string{"/", "/var", "/home"} {
			s.disks += int64(g.r.IntN(1 << 20))
			emit("disk", fmt.Sprintf(",device=sda%d,fstype=ext4,host=%s,mode=rw,path=%s total=%di,used=%di,used_percent=%.2f", i+1, host, p, int64(100)<<30, s.disks, float64(s.disks)/float64(100<<30)*100))
		}
	}
	emit("net", fmt.Sprintf(",host=%s,interface=eth0 bytes_recv=%di,bytes_sent=%di,err_in=0i", host, s.recv, s.sent))
	emit("system", fmt.Sprintf(`,host=%s load1=%.2f,n_cpus=2i,uptime=%di,uptime_format="%d days, %2d:%02d",healthy=%v`, host, s.user/40, s.uptime, s.uptime/86400, s.uptime/3600%24, s.uptime/60%60, g.r.IntN(100) > 0))
	// Late lines come some minutes after their time.
	for len(g.held) > 40*g.hosts/50+1 {
		dst = append(dst, g.held[0]...)
		g.held = g.held[1:]
	}
	if g.host++; g.host == g.hosts {
		g.host, g.step = 0, g.step+1
	}
	return dst, true
}

func clamp(v, lo, hi float64) float64 { return min(max(v, lo), hi) }
