package promapi

import "strconv"

// described is what a sender said about a metric.
type described struct {
	Type string `json:"type"`
	Unit string `json:"unit"`
	Help string `json:"help"`
}

// metadata answers with what senders said about metrics.
func (a *API) metadata(c *Call) error {
	limits := [2]int{-1, -1}
	for i, name := range []string{"limit", "limit_per_metric"} {
		if text := c.param(name); text != "" {
			var err error
			if limits[i], err = strconv.Atoi(text); err != nil {
				return badData("%s must be a number", name)
			}
		}
	}
	if limits[0] == 0 {
		return c.answer(struct{}{}, nil)
	}
	entries, out, err := a.opt.Engine.Metadata(c.Request.Context(), &c.Access, c.param("metric"), max(limits[0], 0), max(limits[1], 0))
	if err != nil {
		return err
	}
	all := make(map[string][]described)
	for _, e := range entries {
		all[e.Metric] = append(all[e.Metric], described{e.Type, e.Unit, e.Help})
	}
	return c.answer(all, out)
}
