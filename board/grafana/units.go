package grafana

import "slices"

// units are the units of axes that both have: first the one that Export writes, then others that mean the same.
var units = []struct {
	ours   string
	theirs []string
}{
	{"none", []string{"none"}},
	{"SI", []string{"short", "locale", "sishort"}},
	{"bytes", []string{"bytes"}},
	{"bits", []string{"decbits", "bits"}},
	{"percent", []string{"percent"}},
	{"seconds", []string{"s"}},
	{"per second", []string{"ops", "reqps", "rps", "wps", "iops", "cps", "eps", "mps", "rowsps", "pps", "hertz", "recps"}},
}

// near are units that the page writes in another way.
var near = map[string]string{
	"decbytes": "bytes", "Bps": "bytes", "binBps": "bytes", "decBps": "bytes", "KBs": "SI", "bps": "bits", "binbps": "bits",
	"dtdurations": "seconds", "dthms": "seconds", "clocks": "seconds",
}

// importedUnit returns our unit for one of Grafana. same is false if the page writes values in another way.
func importedUnit(unit string) (ours string, same bool) {
	if unit == "" {
		return "auto", true
	}
	for _, u := range units {
		if slices.Contains(u.theirs, unit) {
			return u.ours, true
		}
	}
	if ours, ok := near[unit]; ok {
		return ours, false
	}
	return "SI", false
}

// exportedUnit returns Grafana's unit for ours.
func exportedUnit(unit string) string {
	for _, u := range units {
		if u.ours == unit {
			return u.theirs[0]
		}
	}
	return ""
}
