package debug

import (
	"crypto/fips140"
	"encoding/json"
	"fmt"
	"os"
	"runtime"
	"strings"
	"time"

	"tsdbd/query/show"
)

// statistic is a statistic as Telegraf's inputs.influxdb reads it.
type statistic struct {
	Name   string            `json:"name"`
	Tags   map[string]string `json:"tags"`
	Values map[string]any    `json:"values"`
}

// Vars returns the document of /debug/vars: what InfluxDB says of itself, and a
// member for each statistic.
func Vars(version string, started time.Time, statistics []show.Statistic) ([]byte, error) {
	now := time.Now()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	vars := map[string]any{
		"system": map[string]any{
			"currentTime": now.UTC().Format(time.RFC3339Nano), "started": started.UTC().Format(time.RFC3339Nano),
			"uptime": int64(now.Sub(started).Seconds()),
		},
		"build":    map[string]string{"Branch": "", "Build Time": "", "Commit": "", "Version": version},
		"crypto":   map[string]any{"FIPS": fips140.Enabled(), "ensureFIPS": false, "implementation": "Go", "passwordHash": "bcrypt"},
		"cmdline":  os.Args,
		"memstats": m,
	}
	for _, s := range statistics {
		tags := map[string]string{}
		for _, t := range s.Tags {
			tags[t.Key] = t.Value
		}
		name := key(s.Name, tags)
		for n := 1; vars[name] != nil; n++ {
			name = fmt.Sprintf("%s:%d", key(s.Name, tags), n)
		}
		vars[name] = statistic{s.Name, tags, s.Values}
	}
	return json.MarshalIndent(vars, "", "  ")
}

// key names a statistic: name:database for those of a database, name:bind for
// those of a listener.
func key(name string, tags map[string]string) string {
	parts := []string{name}
	for _, tag := range []string{"proto", "bind", "database", "retentionPolicy", "id"} {
		if v := tags[tag]; v != "" {
			parts = append(parts, v)
		}
	}
	return strings.Join(parts, ":")
}
