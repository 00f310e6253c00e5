package lineproto

import (
	"fmt"
	"math/rand"
	"strconv"
)

// dataSet makes bodies of n lines over the given number of series, all series
// once per round, 10 s apart, with ten tags and ten fields as the devops
// generators of benchmark suites write them.
type dataSet struct {
	name   string
	fields []string
	value  func(dst []byte, r *rand.Rand, field int, prev *float64) []byte
}

var cpuFields = []string{
	"usage_user", "usage_system", "usage_idle", "usage_nice", "usage_iowait",
	"usage_irq", "usage_softirq", "usage_steal", "usage_guest", "usage_guest_nice",
}

var memFields = []string{
	"total", "available", "used", "free", "cached", "buffered", "active", "inactive",
	"used_percent", "available_percent",
}

var dataSets = []dataSet{
	{"ints", cpuFields, func(dst []byte, r *rand.Rand, field int, prev *float64) []byte {
		*prev = min(max(*prev+r.NormFloat64(), 0), 100)
		return append(strconv.AppendInt(dst, int64(*prev), 10), 'i')
	}},
	{"decimals", cpuFields, func(dst []byte, r *rand.Rand, field int, prev *float64) []byte {
		*prev = min(max(*prev+r.NormFloat64(), 0), 100)
		return strconv.AppendFloat(dst, *prev, 'f', 2, 64)
	}},
	{"digits17", cpuFields, func(dst []byte, r *rand.Rand, field int, prev *float64) []byte {
		*prev = min(max(*prev+r.NormFloat64(), 0), 100)
		return strconv.AppendFloat(dst, *prev, 'f', -1, 64)
	}},
	{"memory", memFields, func(dst []byte, r *rand.Rand, field int, prev *float64) []byte {
		if field >= 8 {
			return strconv.AppendFloat(dst, 100*r.Float64(), 'f', -1, 64)
		}
		return append(strconv.AppendInt(dst, 10_000_000_000+r.Int63n(80_000_000_000), 10), 'i')
	}},
}

func appendHostKey(dst []byte, host int) []byte {
	regions := []string{"eu-central-1", "us-east-1", "ap-southeast-2", "sa-east-1"}
	region := regions[host%len(regions)]
	return fmt.Appendf(dst, "cpu,hostname=host_%d,region=%s,datacenter=%s%c,rack=%d,os=Ubuntu15.10,arch=x86,team=%s,service=%d,service_version=%d,service_environment=%s",
		host, region, region, 'a'+host%3, host%100, []string{"SF", "NYC", "LON"}[host%3], host%20, host%2, []string{"test", "production"}[host%2])
}

// bodies returns n bodies of about lines lines each.
func (d *dataSet) bodies(series, n, lines int) [][]byte {
	r := rand.New(rand.NewSource(1))
	state := make([]float64, len(d.fields)*min(series, 1000))
	for i := range state {
		state[i] = r.Float64() * 100
	}
	keys := make([][]byte, min(series, 100_000))
	for i := range keys {
		keys[i] = appendHostKey(nil, i)
	}
	var out [][]byte
	at, t := 0, int64(1451606400000000000)
	for range n {
		var b []byte
		for range lines {
			if series <= len(keys) {
				b = append(b, keys[at]...)
			} else {
				b = appendHostKey(b, at)
			}
			for f, key := range d.fields {
				b = append(b, " ,"[min(f, 1)])
				b = append(append(b, key...), '=')
				b = d.value(b, r, f, &state[at%1000%(len(state)/len(d.fields))*len(d.fields)+f])
			}
			b = append(strconv.AppendInt(append(b, ' '), t, 10), '\n')
			if at++; at == series {
				at, t = 0, t+10_000_000_000
			}
		}
		out = append(out, b)
	}
	return out
}
