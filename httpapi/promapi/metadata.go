package promapi

import "strconv"

// described is what a sender said about a metric.
type described struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
	Help string `json:"help"`
}

// metadata answers with what senders said about metrics. Of each metric there is one
// entry, so that limit_per_metric has no effect.
func (a *API) metadata(c *Call) error {
	limit := -1
	for _, name := range []string{"limit_per_metric", "limit"} {
		text := c.param(name)
		if text == "" {
			continue
		}
		n, err := strconv.Atoi(text)
		if err != nil {
			return badData("%s must be a number", name)
		}
		if name == "limit" {
			limit = n
		}
	}
	if limit == 0 {
		return c.answer(struct{}{}, nil)
	}
	entries, err := a.opt.Engine.Metadata(c.Request.Context(), &c.Access, c.param("metric"), max(limit, 0))
	if err != nil {
		return err
	}
	all := make(map[string][]described, len(entries))
	for _, e := range entries {
		all[e.Metric] = []described{{e.Type, e.Unit, e.Help}}
	}
	return c.answer(all, nil)
}
