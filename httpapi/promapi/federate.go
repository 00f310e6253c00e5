package promapi

import (
	"net/http"
	"strings"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/prometheus/promql"

	"tsdbd/prom/engine"
	"tsdbd/prom/exposition"
)

// federate answers with the newest samples of series, in the text form for scrapes. A
// request without selectors gets no samples.
func (a *API) federate(c *Call) error {
	sets, err := a.opt.Engine.Selectors(c.Request.Form["match[]"])
	if err != nil {
		return err
	}
	format := expfmt.NegotiateAccept(c.Request.Header, expfmt.NewFormat(expfmt.TypeTextPlain))
	c.W.Header().Set("Content-Type", string(format))
	now := a.opt.Now()
	l := &engine.Lookup{Access: c.Access, Selectors: sets, Start: now.Add(-a.opt.Engine.Limits().Lookback), End: now}
	text := exposition.Writer{Escaping: format.ToEscapingScheme()}
	out, err := a.opt.Engine.Newest(c.Request.Context(), l, func(s *promql.Sample) error {
		return c.append(func(b []byte) []byte { return text.Append(b, s) })
	})
	if err != nil {
		return err
	}
	for _, warning := range out.Warnings {
		// Whoever reads the samples passes over the comment.
		err := c.append(func(b []byte) []byte { return append(b, "# warning: "+strings.ReplaceAll(warning, "\n", " ")+"\n"...) })
		if err != nil {
			return err
		}
	}
	if err := c.Out.Finish(); err != nil {
		return err
	}
	if !c.Out.AnySent() {
		c.W.WriteHeader(http.StatusOK)
	}
	return nil
}
