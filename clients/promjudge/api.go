package promjudge

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"time"

	"github.com/grafana/regexp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/common/route"
	"github.com/prometheus/prometheus/config"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/rules"
	"github.com/prometheus/prometheus/scrape"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/util/notifications"
	v1 "github.com/prometheus/prometheus/web/api/v1"
)

// nothing is a Prometheus that scrapes nothing and has no rules.
type nothing struct{}

func (nothing) ScrapePools() []string                       { return nil }
func (nothing) TargetsActive() map[string][]*scrape.Target  { return nil }
func (nothing) TargetsDropped() map[string][]*scrape.Target { return nil }
func (nothing) TargetsDroppedCounts() map[string]int        { return nil }
func (nothing) Alertmanagers() []*url.URL                   { return nil }
func (nothing) DroppedAlertmanagers() []*url.URL            { return nil }
func (nothing) RuleGroups() []*rules.Group                  { return nil }
func (nothing) AlertingRules() []*rules.AlertingRule        { return nil }

func (nothing) ScrapePoolConfig(string) (*config.ScrapeConfig, error) {
	return nil, errors.New("no such scrape pool")
}

// admin has the figures of a Reference.
type admin struct{ *tsdb.DB }

func (a admin) Stats(name string, limit int) (*tsdb.Stats, error) {
	return a.Head().Stats(name, limit), nil
}

func (admin) WALReplayStatus() (tsdb.WALReplayStatus, error) { return tsdb.WALReplayStatus{}, nil }
func (a admin) BlockMetas() ([]tsdb.BlockMeta, error)        { return a.DB.BlockMetas(), nil }

// Handler is the HTTP API of Prometheus over the reference: its own code.
func (ref *Reference) Handler(options promql.EngineOpts) http.Handler {
	api := v1.NewAPI(
		promql.NewEngine(options), ref, nil, nil, ref.DB,
		func(context.Context) v1.ScrapePoolsRetriever { return nothing{} },
		func(context.Context) v1.TargetRetriever { return nothing{} },
		func(context.Context) v1.AlertmanagerRetriever { return nothing{} },
		func() config.Config { return config.Config{} }, nil, v1.GlobalURLOptions{},
		func(f http.HandlerFunc) http.HandlerFunc { return f },
		admin{ref.DB}, "", false, false, 0, slog.New(slog.DiscardHandler),
		func(context.Context) v1.RulesRetriever { return nothing{} },
		5e7, 10, 1<<20, false, regexp.MustCompile(`.*`),
		func() (v1.RuntimeInfo, error) { return v1.RuntimeInfo{}, nil },
		&v1.PrometheusVersion{Version: "3.15.0"},
		func() []notifications.Notification { return nil },
		func() (<-chan notifications.Notification, func(), bool) { return nil, func() {}, false },
		prometheus.NewRegistry(), prometheus.NewRegistry(), nil, false, nil, false, false, false, false,
		5*time.Minute, false, false, nil, nil, v1.OpenAPIOptions{}, options.Parser,
	)
	r := route.New()
	api.Register(r.WithPrefix("/api/v1"))
	return r
}
