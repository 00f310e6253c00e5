package promapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/prom/engine"
)

// What a Prometheus answers that scrapes nothing, has no rules and sends no alerts.

// fixed answers with a document that never changes.
func fixed(document string) func(*API, *Call) error {
	return func(_ *API, c *Call) error { return c.answer(json.RawMessage(document), nil) }
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
	return fixed(`{"groups":[]}`)(a, c)
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

var errScrapePool = errors.New("no such scrape pool")

// scrapePoolConfig refuses any name.
func (a *API) scrapePoolConfig(c *Call) error {
	if c.param("scrapePool") == "" {
		return badData("no scrapePool parameter provided")
	}
	return badData("error retrieving scrape config: %w", errScrapePool)
}

// relabelSteps refuses any name.
func (a *API) relabelSteps(c *Call) error {
	if c.param("scrapePool") == "" {
		return badData("no scrapePool parameter provided")
	}
	text := c.param("labels")
	if text == "" {
		return badData("no labels parameter provided")
	}
	var ls labels.Labels
	if err := json.Unmarshal([]byte(text), &ls); err != nil {
		return badData("error parsing labels: %w", err)
	}
	return badData("error retrieving scrape config: %w", errScrapePool)
}

// targetMetadata answers that no target has any.
func (a *API) targetMetadata(c *Call) error {
	if text := c.param("limit"); text != "" {
		if _, err := c.limit(); err != nil {
			return badData("limit must be a number")
		}
	}
	if text := c.param("match_target"); text != "" {
		if _, err := a.opt.Engine.Selectors([]string{text}); err != nil {
			return parameterError(err, "match_target")
		}
	}
	return c.answer([]string{}, nil)
}

// instead says where to find what some endpoints of Prometheus have.
var instead = map[string]string{
	"admin/tsdb/snapshot": "tsdbd backup copies the data of a running server",
	"status/self_metrics": "the metrics of the server are at /metrics",
	"status/tsdb/blocks":  "there are no blocks; SHOW SHARDS lists the shards",
	"features":            "status/flags has what can be turned on",
	"notifications/live":  "there are no notifications",
	"openapi.yaml":        "docs/prometheus.md lists the endpoints",
	"search/metric_names": "label/__name__/values lists the names of metrics",
	"search/label_names":  "labels lists the names of labels",
	"search/label_values": "label/NAME/values lists the values of a label",
}

// missing refuses what no other endpoint answers.
func (a *API) missing(c *Call) error {
	text := fmt.Sprintf("there is no endpoint %.100q here", strings.ToValidUTF8(c.Rest, "\uFFFD"))
	if other := instead[c.Rest]; other != "" {
		text += ": " + other
	}
	return &engine.Error{Kind: engine.NotFound, Err: errors.New(text)}
}
