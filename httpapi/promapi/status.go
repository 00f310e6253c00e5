package promapi

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
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

// config answers with the configuration of Prometheus, which has nothing set.
func (a *API) config(c *Call) error {
	return c.answer(struct {
		YAML string `json:"yaml"`
	}{}, nil)
}

// flags answers with the flags of Prometheus that have a meaning here.
func (a *API) flags(c *Call) error {
	limits := a.opt.Engine.QueryLimits()
	all := map[string]string{"query.lookback-delta": model.Duration(a.opt.Engine.Limits().Lookback).String()}
	if limits.MaxConcurrentQueries > 0 {
		all["query.max-concurrency"] = strconv.Itoa(limits.MaxConcurrentQueries)
	}
	if limits.QueryTimeout > 0 {
		all["query.timeout"] = model.Duration(limits.QueryTimeout).String()
	}
	return c.answer(all, nil)
}

// rules answers that there are no rules.
func (a *API) rules(c *Call) error {
	if _, err := a.selectors(c); err != nil {
		return err
	}
	url := c.Request.URL.Query()
	switch t := strings.ToLower(url.Get("type")); t {
	case "", "alert", "record":
	default:
		return invalid("type", fmt.Errorf("not supported value %q", t))
	}
	if text := strings.ToLower(url.Get("exclude_alerts")); text != "" {
		if _, err := strconv.ParseBool(text); err != nil {
			return invalid("exclude_alerts", fmt.Errorf("error converting exclude_alerts: %w", err))
		}
	}
	if err := groupPage(url.Get("group_limit"), url.Get("group_next_token")); err != nil {
		return err
	}
	return c.answer(struct {
		Groups []string `json:"groups"`
	}{[]string{}}, nil)
}

// groupPage checks the parameters that ask for a page of groups. There is no page after
// the first.
func groupPage(limit, token string) error {
	if limit != "" {
		switch n, err := strconv.ParseInt(limit, 10, 32); {
		case err != nil:
			return invalid("group_limit", fmt.Errorf("group_limit needs to be a valid number: %w", err))
		case n <= 0:
			return invalid("group_limit", errors.New("group_limit needs to be greater than 0"))
		}
	}
	switch {
	case token == "":
		return nil
	case limit == "":
		return invalid("group_next_token", errors.New("group_limit needs to be present in order to paginate over the groups"))
	}
	return invalid("group_next_token", fmt.Errorf("invalid group_next_token '%v'. were rule groups changed?", token))
}

// alerts answers that there are no alerts.
func (a *API) alerts(c *Call) error {
	return c.answer(struct {
		Alerts []string `json:"alerts"`
	}{[]string{}}, nil)
}

// targets answers that nothing is scraped.
func (a *API) targets(c *Call) error {
	return c.answer(struct {
		Active  []string       `json:"activeTargets"`
		Dropped []string       `json:"droppedTargets"`
		Counts  map[string]int `json:"droppedTargetCounts"`
	}{[]string{}, []string{}, map[string]int{}}, nil)
}
