package load

import (
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Dashboard is six hours of three hosts' metrics across a European change to
// summer time, made to be looked at by dashboards: gaps, a host that joins
// late, counters that restart, sparse fields, annotations. Its values are exact
// in eighths, so that servers agree on them.
const (
	DashboardStart = 1711836000 // s: 2024-03-30T22:00:00Z
	dashboardStep  = 20
	dashboardSteps = 1080
)

// lcg is a small random generator that is the same in every language.
type lcg uint64

func (s *lcg) n(m int64) int64 {
	*s = *s*6364136223846793005 + 1442695040888963407
	return int64(uint64(*s)>>33) % m
}

// triangle is a wave between lo and hi, rounded to eighths.
func triangle(i, period int, lo, hi float64) float64 {
	x, half := i%period, period/2
	if x >= half {
		x = period - x
	}
	return lo + math.RoundToEven((hi-lo)*float64(x)/float64(half)*8)/8
}

// num prints a float so that it stays one.
func num(f float64) string {
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}

// DashboardLines returns the raw lines, for the default retention policy, and
// those of a roll-up, for a policy of its own.
func DashboardLines() (raw, rollup []string) {
	r := lcg(42)
	counters := map[string]int64{}
	add := func(key string, inc int64, reset bool) int64 {
		v, ok := counters[key]
		if !ok {
			v = 1_000_000
		}
		if v += inc; reset {
			v = 0
		}
		counters[key] = v
		return v
	}
	emit := func(format string, args ...any) { raw = append(raw, fmt.Sprintf(format, args...)) }
	hosts := []string{"web01", "web02", "db-01.example.com"}
	for i := range dashboardSteps {
		ts := int64(DashboardStart+i*dashboardStep) * 1e9
		for hi, h := range hosts {
			if h == "web02" && i >= 400 && i < 445 || hi == 2 && i < 270 {
				continue
			}
			dc := "eu"
			total := int64(8) << 30
			if hi == 2 {
				dc, total = "us", 32<<30
			}
			for _, c := range []string{"cpu-total", "cpu0", "cpu1"} {
				user := triangle(i+37*hi, 240, 2, 80) + float64(r.n(16))/16
				system := triangle(i+11, 90, 1, 12)
				iowait := float64(r.n(32)) / 16
				fields := fmt.Sprintf("usage_user=%s,usage_system=%s,usage_iowait=%s,usage_idle=%s", num(user), num(system), num(iowait), num(100-user-system-iowait))
				if c == "cpu-total" && i%3 == 0 {
					fields += ",usage_steal=" + num(float64(r.n(8))/8)
				}
				emit("cpu,cpu=%s,host=%s,dc=%s %s %d", c, h, dc, fields, ts)
			}
			used := int64(float64(total) * triangle(i, 500, 20, 70) / 100)
			pct := float64(used) * 100 / float64(total)
			emit("mem,host=%s total=%di,used=%di,free=%di,cached=%di,buffered=%di,used_percent=%s,available_percent=%s %d", h, total, used, total-used, used/4, used/16, num(pct), num(100-pct), ts)
			if i%3 == 0 {
				for _, d := range []struct {
					path, dev, fs string
					size          int64
				}{{"/", "sda1", "ext4", 40 << 30}, {"/var", "sda2", "ext4", 100 << 30}, {"/home", "sdb1", "xfs", 500 << 30}} {
					if d.path == "/home" && hi == 2 {
						continue
					}
					u := d.size/3 + int64(i)*1024*1024*int64(hi+1)
					emit("disk,device=%s,fstype=%s,host=%s,mode=rw,path=%s total=%di,used=%di,free=%di,used_percent=%s,inodes_free=%di %d", d.dev, d.fs, h, d.path, d.size, u, d.size-u, num(float64(u)*100/float64(d.size)), 1_000_000-i, ts)
				}
			}
			for _, n := range []struct {
				name string
				k    int64
			}{{"eth0", 150_000}, {"lo", 700}} {
				reset := h == "web01" && i == 600
				errs := int64(0)
				if i%97 == 0 {
					errs = 1
				}
				key := h + n.name
				emit("net,host=%s,interface=%s bytes_recv=%di,bytes_sent=%di,packets_recv=%di,err_in=%di,drop_in=0i %d", h, n.name,
					add(key+"r", n.k*(1+r.n(5)), reset), add(key+"s", n.k/2*(1+r.n(3)), reset), add(key+"p", n.k/500+r.n(9), reset), add(key+"e", errs, reset), ts)
			}
			for _, d := range []string{"sda", "sdb"} {
				key := h + d
				emit("diskio,host=%s,name=%s reads=%di,writes=%di,read_bytes=%di,write_bytes=%di,io_time=%di %d", h, d,
					add(key+"1", r.n(40), false), add(key+"2", r.n(90), false), add(key+"3", r.n(40)*4096, false), add(key+"4", r.n(90)*4096, false), add(key+"5", r.n(20000), false), ts)
			}
			cpus, uptime := 2, 100_000+i*dashboardStep
			if hi == 2 {
				cpus = 8
			}
			if h == "web01" && i >= 600 {
				uptime = (i - 600) * dashboardStep
			}
			emit(`system,host=%s load1=%s,load5=%s,load15=%s,n_cpus=%di,uptime=%di,uptime_format="1 days, %2d:%02d",n_users=%di %d`, h, num(triangle(i, 60, 0, 4)), num(triangle(i, 300, 0.5, 3)), num(triangle(i, 900, 1, 2)), cpus, uptime, i/180, i%60, r.n(4), ts)
			if i%6 == 0 {
				zombies := 0
				if i%180 == 0 {
					zombies = 1
				}
				emit("processes,host=%s running=%di,sleeping=%di,total=%di,zombies=%di %d", h, r.n(5), 120+r.n(10), 130+r.n(10), zombies, ts)
				result, code, up := "success", 200, true
				if i%60 == 0 {
					result, code, up = "timeout", 0, false
				}
				emit(`http_response,host=%s,method=GET,server=https://shop.example.com/,result=%s response_time=%s,http_response_code=%di,result_type="%s",up=%v %d`, h, result, num(0.125+float64(r.n(100))/128), code, result, up, ts)
			}
		}
		if i%180 == 90 {
			emit(`events,host=web01,env=prod title="deploy %d",text="release <b>1.%d</b>, by \"ci\"",tags="deploy,web" %d`, i, i, ts+5)
		}
		if i%15 == 0 {
			for _, h := range hosts[:2] {
				rollup = append(rollup, fmt.Sprintf("cpu,cpu=cpu-total,host=%s usage_idle=%s,usage_user=%s %d", h, num(triangle(i, 240, 20, 95)), num(triangle(i, 240, 5, 80)), ts))
			}
		}
	}
	return raw, rollup
}
