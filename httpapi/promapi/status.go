package promapi

import (
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
)

// buildInfo answers with versions.
func (a *API) buildInfo(c *Call) error {
	return c.answer(struct {
		Version   string `json:"version"`
		Revision  string `json:"revision"`
		Branch    string `json:"branch"`
		BuildUser string `json:"buildUser"`
		BuildDate string `json:"buildDate"`
		GoVersion string `json:"goVersion"`
	}{Version: Version, Revision: "tsdbd " + a.opt.Build, GoVersion: runtime.Version()}, nil)
}

// runtimeInfo answers with what a process is.
func (a *API) runtimeInfo(c *Call) error {
	host, _ := os.Hostname() // "" if it has none
	return c.answer(struct {
		StartTime           time.Time `json:"startTime"`
		CWD                 string    `json:"CWD"`
		Hostname            string    `json:"hostname"`
		ServerTime          time.Time `json:"serverTime"`
		ReloadConfigSuccess bool      `json:"reloadConfigSuccess"`
		LastConfigTime      time.Time `json:"lastConfigTime"`
		CorruptionCount     int64     `json:"corruptionCount"`
		GoroutineCount      int       `json:"goroutineCount"`
		GOMAXPROCS          int       `json:"GOMAXPROCS"`
		GOMEMLIMIT          int64     `json:"GOMEMLIMIT"`
		GOGC                string    `json:"GOGC"`
		GODEBUG             string    `json:"GODEBUG"`
		StorageRetention    string    `json:"storageRetention"`
	}{
		StartTime: a.opt.Started.UTC(), Hostname: host, ServerTime: a.opt.Now().UTC(), ReloadConfigSuccess: true,
		LastConfigTime: a.opt.Started.UTC(), GoroutineCount: runtime.NumGoroutine(), GOMAXPROCS: runtime.GOMAXPROCS(0),
		GOMEMLIMIT: debug.SetMemoryLimit(-1),
	}, nil)
}

// flags answers with the flags of Prometheus that have a meaning here.
func (a *API) flags(c *Call) error {
	limits := a.opt.Engine.QueryLimits()
	all := map[string]string{"query.lookback-delta": model.Duration(a.opt.Engine.Limits().Lookback).String()}
	if a.opt.Engine.Limits().Experimental {
		all["enable-feature"] = "promql-experimental-functions,promql-extended-range-selectors,promql-binop-fill-modifiers"
	}
	if limits.MaxConcurrentQueries > 0 {
		all["query.max-concurrency"] = strconv.Itoa(limits.MaxConcurrentQueries)
	}
	if limits.QueryTimeout > 0 {
		all["query.timeout"] = model.Duration(limits.QueryTimeout).String()
	}
	return c.answer(all, nil)
}
