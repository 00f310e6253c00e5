package load

import (
	"fmt"
	"math/rand/v2"
)

// Agent makes what Telegraf sends from some hosts with its inputs cpu, mem,
// disk, diskio, net, system, processes and kernel and its own defaults: every
// field, times rounded to seconds, an interval of ten seconds now and then left
// out. Values come about as on a Linux machine: percentages of a processor are
// quotients of differences of clock ticks in seconds, memory is in pages,
// counters follow the load of the host.
type Agent struct {
	// Points is the number of distinct points made so far.
	Points int64

	hosts, steps int
	start        int64 // s
	r            *rand.Rand
	step, host   int
	state        []*agentHost
}

type agentHost struct {
	load                             float64 // 0 to 1, wanders
	load1, load5, load15             float64
	cores                            [2]agentCore
	total                            agentCore
	used, cached, buffered, slab     int64 // pages
	active, dirty, mapped, committed int64
	free, inodes                     [2]int64
	disks                            [2]agentDisk
	links                            [2]agentLink
	switches, interrupts, forked     int64
	boot                             int64
}

// agentCore are the clock ticks of a processor by what it did: user, system,
// idle, iowait, softirq; last are those of the line before.
type agentCore struct{ ticks, last [5]int64 }

type agentDisk struct{ reads, writes, readBytes, writeBytes, readTime, writeTime, ioTime, weighted, mergedReads, mergedWrites int64 }

type agentLink struct{ recv, sent, packetsIn, packetsOut int64 }

const (
	agentInterval = 10
	page          = 4096
	agentMemory   = 16 << 30
	agentDiskSize = 200 << 30
)

// NewAgent returns a generator for hosts agents and steps intervals of ten
// seconds from start (s since the epoch). It makes the same lines every time.
func NewAgent(hosts, steps int, start int64) *Agent {
	g := &Agent{hosts: hosts, steps: steps, start: start, r: rand.New(rand.NewPCG(8, 360))}
	for i := range hosts {
		h := &agentHost{
			load: g.r.Float64() / 2, used: 1 << 20, cached: 1 << 19, buffered: 1 << 15, slab: 1 << 16,
			active: 1 << 19, dirty: 500, mapped: 1 << 15, committed: 1 << 20, boot: start - 86400*int64(1+i%50) - int64(i)*7,
		}
		for k := range h.free {
			h.free[k], h.inodes[k] = (20+g.r.Int64N(20))<<18, 9e6
		}
		for i := range h.cores {
			for k, share := range [5]int64{20, 8, 70, 1, 1} { // percent since the boot
				h.cores[i].ticks[k] = (start-h.boot)*share + int64(i*k)
				h.total.ticks[k] += h.cores[i].ticks[k]
			}
			h.cores[i].last = h.cores[i].ticks
		}
		h.total.last = h.total.ticks
		g.state = append(g.state, h)
	}
	return g
}

// Next appends the lines of one host at one time to dst; false at the end.
func (g *Agent) Next(dst []byte) ([]byte, bool) {
	if g.step == g.steps {
		return dst, false
	}
	h := g.state[g.host]
	g.advance(h)
	if g.r.IntN(400) > 0 { // else the interval was missed
		dst = g.lines(dst, h)
	}
	if g.host++; g.host == g.hosts {
		g.host, g.step = 0, g.step+1
	}
	return dst, true
}

// some returns about mean events.
func (g *Agent) some(mean float64) int64 { return max(int64(mean+g.r.NormFloat64()*mean/20+.5), 0) }

// advance lets a host run for an interval.
func (g *Agent) advance(h *agentHost) {
	r := g.r
	h.load = clamp(h.load+r.NormFloat64()/50, .01, 1)
	if r.IntN(200) == 0 {
		h.load = r.Float64()
	}
	running := h.load * 2
	h.load1 += (running - h.load1) * .15
	h.load5 += (running - h.load5) * .033
	h.load15 += (running - h.load15) * .011
	for i := range h.cores {
		c := &h.cores[i]
		busy := g.some(agentInterval * 100 * h.load)
		user := busy * 7 / 10
		wait := r.Int64N(3) * r.Int64N(4)
		soft := busy / 200
		ticks := [5]int64{user, busy - user - soft, max(agentInterval*100+r.Int64N(3)-1-busy-wait, 0), wait, soft}
		for k, n := range ticks {
			c.ticks[k] += n
			h.total.ticks[k] += n
		}
	}
	h.used = clampPages(h.used + int64(r.NormFloat64()*200))
	h.cached = clampPages(h.cached + r.Int64N(60) - 20)
	h.slab = clampPages(h.slab + r.Int64N(9) - 4)
	h.active = clampPages(h.active + r.Int64N(200) - 100)
	h.dirty = 50 + r.Int64N(2000)
	h.mapped = clampPages(h.mapped + r.Int64N(21) - 10)
	h.committed = clampPages(h.committed + r.Int64N(401) - 200)
	if r.IntN(20) == 0 {
		h.buffered++
	}
	for i := range h.free {
		if i == 0 || r.IntN(30) == 0 { // the second is hardly written to
			h.free[i] -= r.Int64N(40)
			h.inodes[i] += r.Int64N(5) - 2
		}
		d := &h.disks[i]
		if i == 0 || r.IntN(10) == 0 {
			writes := g.some(300 * h.load)
			d.writes += writes
			d.writeBytes += page * (writes*4 + r.Int64N(100))
			d.writeTime += writes * 3 / 2
			d.mergedWrites += writes / 3
			d.ioTime += writes / 2
			d.weighted += writes * 2
			if r.IntN(6) == 0 {
				reads := r.Int64N(40)
				d.reads += reads
				d.readBytes += page * reads * 2
				d.readTime += reads
				d.mergedReads += reads / 8
			}
		}
		l := &h.links[i]
		in, out := g.some(4000*h.load), g.some(3500*h.load)
		if i == 1 { // the loopback
			in = r.Int64N(20)
			out = in
		}
		l.packetsIn += in
		l.packetsOut += out
		l.recv += in*700 + r.Int64N(1000)
		l.sent += out*400 + r.Int64N(1000)
	}
	h.switches += g.some(30000 * (.1 + h.load))
	h.interrupts += g.some(18000 * (.1 + h.load))
	h.forked += r.Int64N(12)
}

func clampPages(n int64) int64 { return min(max(n, 1000), agentMemory/page/2) }

// lines appends the lines of a host.
func (g *Agent) lines(dst []byte, h *agentHost) []byte {
	ts := (g.start + int64(g.step)*agentInterval) * 1e9
	name := fmt.Sprintf("web-%03d.example.com", g.host)
	line := func(points int64, format string, args ...any) {
		g.Points += points
		dst = fmt.Appendf(dst, format, args...)
		dst = fmt.Appendf(dst, " %d\n", ts)
	}
	for i := range h.cores {
		dst = h.cores[i].cpu(dst, fmt.Sprintf("cpu%d", i), name, ts)
	}
	dst = h.total.cpu(dst, "cpu-total", name, ts)
	g.Points += int64(len(h.cores)) + 1
	used, available := h.used*page, agentMemory-h.used*page
	line(1, "mem,host=%s active=%di,available=%di,available_percent=%v,buffered=%di,cached=%di,commit_limit=%di,committed_as=%di,dirty=%di,free=%di,"+
		"high_free=0i,high_total=0i,huge_page_size=2097152i,huge_pages_free=0i,huge_pages_total=0i,inactive=%di,low_free=0i,low_total=0i,mapped=%di,"+
		"page_tables=%di,shared=9068544i,slab=%di,sreclaimable=%di,sunreclaim=%di,swap_cached=0i,swap_free=0i,swap_total=0i,total=%di,used=%di,used_percent=%v,"+
		"vmalloc_chunk=0i,vmalloc_total=35184372087808i,vmalloc_used=16297984i,write_back=0i,write_back_tmp=0i", name,
		h.active*page, available, float64(available)/float64(agentMemory)*100, h.buffered*page, h.cached*page, int64(agentMemory/2), h.committed*page, h.dirty*page,
		available-h.cached*page, h.cached*page/2, h.mapped*page, h.mapped*page/16, h.slab*page, h.slab*page*3/4, h.slab*page/4, int64(agentMemory), used,
		float64(used)/float64(agentMemory)*100)
	for i, d := range []string{"sda1", "sdb1"} {
		free := h.free[i] * page
		line(1, "disk,device=%s,fstype=ext4,host=%s,mode=rw,path=%s free=%di,inodes_free=%di,inodes_total=13107200i,inodes_used=%di,inodes_used_percent=%v,"+
			"total=%di,used=%di,used_percent=%v", d, name, []string{"/", "/data"}[i], free, 13107200-h.inodes[i], h.inodes[i],
			float64(h.inodes[i])/13107200*100, int64(agentDiskSize), agentDiskSize-free, float64(agentDiskSize-free)/float64(agentDiskSize)*100)
		x := &h.disks[i]
		line(1, "diskio,host=%s,name=%s io_time=%di,iops_in_progress=0i,merged_reads=%di,merged_writes=%di,read_bytes=%di,read_time=%di,reads=%di,"+
			"weighted_io_time=%di,write_bytes=%di,write_time=%di,writes=%di", name, d[:3], x.ioTime, x.mergedReads, x.mergedWrites, x.readBytes, x.readTime, x.reads,
			x.weighted, x.writeBytes, x.writeTime, x.writes)
		l := &h.links[i]
		line(1, "net,host=%s,interface=%s bytes_recv=%di,bytes_sent=%di,drop_in=0i,drop_out=0i,err_in=0i,err_out=0i,packets_recv=%di,packets_sent=%di,speed=-1i",
			name, []string{"eth0", "lo"}[i], l.recv, l.sent, l.packetsIn, l.packetsOut)
	}
	// These three are one point.
	line(1, "system,host=%s load1=%.2f,load15=%.2f,load5=%.2f,n_cpus=2i,n_physical_cpus=2i,n_users=1i", name, h.load1, h.load15, h.load5)
	uptime := ts/1e9 - h.boot
	line(0, "system,host=%s uptime=%di", name, uptime)
	line(0, "system,host=%s uptime_format=\"%d days, %2d:%02d\"", name, uptime/86400, uptime/3600%24, uptime/60%60)
	run := 1 + int64(h.load*4) + g.r.Int64N(2)
	line(1, "processes,host=%s blocked=%di,dead=0i,idle=%di,paging=0i,running=%di,sleeping=%di,stopped=0i,total=%di,total_threads=%di,unknown=0i,zombies=0i",
		name, g.r.Int64N(40)/39, 36+g.r.Int64N(2), run, 70-run, 107+g.r.Int64N(2), 190+run)
	line(1, "kernel,host=%s boot_time=%di,context_switches=%di,entropy_avail=256i,interrupts=%di,processes_forked=%di", name, h.boot, h.switches, h.interrupts, h.forked)
	return dst
}

// cpu appends a line of the input cpu: percentages of the ticks since the line
// before, in seconds as doubles, as Telegraf computes them.
func (c *agentCore) cpu(dst []byte, cpu, host string, ts int64) []byte {
	var total, before float64
	for k := range c.ticks {
		total += float64(c.ticks[k]) / 100
		before += float64(c.last[k]) / 100
	}
	usage := func(k int) float64 {
		return 100 * (float64(c.ticks[k])/100 - float64(c.last[k])/100) / (total - before)
	}
	dst = fmt.Appendf(dst, "cpu,cpu=%s,host=%s usage_guest=0,usage_guest_nice=0,usage_idle=%v,usage_iowait=%v,usage_irq=0,usage_nice=0,"+
		"usage_softirq=%v,usage_steal=0,usage_system=%v,usage_user=%v %d\n", cpu, host, usage(2), usage(3), usage(4), usage(1), usage(0), ts)
	c.last = c.ticks
	return dst
}
