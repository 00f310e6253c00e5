package show

import (
	"maps"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/internal/version"
	"tsdbd/model"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// Statistic is one series of SHOW STATS.
type Statistic struct {
	Name   string
	Tags   model.Tags
	Values map[string]any // string, int64, uint64, float64 or bool
}

// Diagnostic is one series of SHOW DIAGNOSTICS: a table of one row.
type Diagnostic struct {
	Name    string
	Columns []string
	Values  []any // as in Statistic
}

// ShowQueries lists the queries that run.
func (s *Statement) ShowQueries(*influxql.ShowQueriesStatement) ([]*result.Series, error) {
	t := result.NewTable("", "qid", "query", "database", "duration", "status", "user")
	for _, q := range s.Running.List() {
		if s.MayRead != nil && q.User != s.User {
			continue // its text may name any database
		}
		status := "running"
		if q.Killed {
			status = "killed"
		}
		t.AddRow(int64(q.ID), q.Text, q.Database, shorten(q.Took).String(), status, q.User)
	}
	return []*result.Series{t}, nil
}

// ShowServers lists the nodes of the cluster.
func (s *Statement) ShowServers(*syntax.ShowServers) ([]*result.Series, error) {
	if s.Servers == nil {
		return nil, nil
	}
	return s.Servers(), nil
}

// shorten cuts a duration to its largest unit.
func shorten(d time.Duration) time.Duration {
	switch {
	case d >= time.Second:
		return d.Truncate(time.Second)
	case d >= time.Millisecond:
		return d.Truncate(time.Millisecond)
	case d >= time.Microsecond:
		return d.Truncate(time.Microsecond)
	}
	return d
}

// AllStatistics returns what SHOW STATS shows to an administrator.
func (s *Statement) AllStatistics() ([]Statistic, error) { return s.statistics("") }

// statistics returns the statistics. With a module it may leave out those of
// other modules that take long to count.
func (s *Statement) statistics(module string) ([]Statistic, error) {
	all := []Statistic{s.executorStatistic()}
	if s.Statistics != nil {
		all = append(all, s.Statistics()...)
	}
	all = append(all, runtimeStatistic())
	if module == "" || module == "database" {
		databases, err := s.databaseStatistics()
		if err != nil {
			return nil, err
		}
		all = append(all, databases...)
	}
	return all, nil
}

// ShowStats has a table for each statistic.
func (s *Statement) ShowStats(st *influxql.ShowStatsStatement) ([]*result.Series, error) {
	all, err := s.statistics(st.Module)
	if err != nil {
		return nil, err
	}
	var tables []*result.Series
	for _, stat := range all {
		if st.Module != "" && st.Module != stat.Name {
			continue
		}
		keys := slices.Sorted(maps.Keys(stat.Values))
		values := make([]any, len(keys))
		for i, key := range keys {
			values[i] = stat.Values[key]
		}
		t := result.ValueTable(stat.Name, keys, values)
		t.Tags = stat.Tags
		tables = append(tables, t)
	}
	return tables, nil
}

func (s *Statement) executorStatistic() Statistic {
	f := s.Running.Figures()
	return Statistic{Name: "queryExecutor", Values: map[string]any{
		"queriesActive":   f.Active,
		"queriesExecuted": f.Executed,
		"queriesFinished": f.Finished,
		"queryDurationNs": int64(f.Took),
		"recoveredPanics": f.Panics,
	}}
}

// databaseStatistics counts the measurements and series of each database.
func (s *Statement) databaseStatistics() ([]Statistic, error) {
	var all []Statistic
	for _, db := range s.readable() {
		var measurements, series int64
		err := s.wholeDatabase(db, func(v *indexView) error {
			list, err := v.measurements(s.Ctx, nil, nil)
			if err != nil {
				return err
			}
			measurements = int64(len(list))
			series = v.seriesCount()
			return nil
		})
		if err != nil {
			return nil, err
		}
		all = append(all, Statistic{
			Name: "database", Tags: model.Tags{{Key: "database", Value: db.Name}},
			Values: map[string]any{"numMeasurements": measurements, "numSeries": series},
		})
	}
	return all, nil
}

func runtimeStatistic() Statistic {
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return Statistic{Name: "runtime", Values: map[string]any{
		"Sys": int64(m.Sys), "NumGoroutine": int64(runtime.NumGoroutine()), "NumGC": int64(m.NumGC),
		"PauseTotalNs": int64(m.PauseTotalNs), "Alloc": int64(m.Alloc), "TotalAlloc": int64(m.TotalAlloc),
		"Lookups": int64(m.Lookups), "Mallocs": int64(m.Mallocs), "Frees": int64(m.Frees),
		"HeapAlloc": int64(m.HeapAlloc), "HeapSys": int64(m.HeapSys), "HeapIdle": int64(m.HeapIdle),
		"HeapInUse": int64(m.HeapInuse), "HeapReleased": int64(m.HeapReleased), "HeapObjects": int64(m.HeapObjects),
	}}
}

// ShowDiagnostics has a table for each diagnostic, sorted by name.
func (s *Statement) ShowDiagnostics(st *influxql.ShowDiagnosticsStatement) ([]*result.Series, error) {
	now := s.Now()
	all := []Diagnostic{buildDiagnostic()}
	if s.Diagnostics != nil {
		all = append(all, s.Diagnostics()...)
	}
	all = append(all,
		Diagnostic{
			"runtime",
			[]string{"GOARCH", "GOMAXPROCS", "GOOS", "version"},
			[]any{runtime.GOARCH, int64(runtime.GOMAXPROCS(0)), runtime.GOOS, runtime.Version()},
		},
		Diagnostic{
			"system",
			[]string{"PID", "currentTime", "started", "uptime"},
			[]any{int64(os.Getpid()), now.UTC().Format(time.RFC3339Nano), s.Started.UTC().Format(time.RFC3339Nano), now.Sub(s.Started).String()},
		})
	slices.SortStableFunc(all, func(a, b Diagnostic) int { return strings.Compare(a.Name, b.Name) })
	var tables []*result.Series
	for _, d := range all {
		if st.Module == "" || st.Module == d.Name {
			tables = append(tables, result.ValueTable(d.Name, d.Columns, d.Values))
		}
	}
	return tables, nil
}

// buildDiagnostic tells what the binary was built from.
func buildDiagnostic() Diagnostic {
	b := version.Of()
	return Diagnostic{"build", []string{"Branch", "Build Time", "Commit", "Version"}, []any{"", b.Time, b.Commit, b.Version}}
}
