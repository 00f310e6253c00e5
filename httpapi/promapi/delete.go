package promapi

import (
	"errors"
	"net/http"

	"tsdbd/prom/engine"
)

// deleteSeries deletes the samples of series. It deletes rows, and refuses to delete a metric
// whose rows have other metrics too.
func (a *API) deleteSeries(c *Call) error {
	texts := c.Request.Form["match[]"]
	if len(texts) == 0 {
		return badData("no match[] parameter provided")
	}
	start, end, err := c.times()
	if err != nil {
		return err
	}
	requests, err := a.opt.Engine.Deletes(&c.Access, texts, start, end)
	if err != nil {
		return parameterError(err, "match[]")
	}
	for _, req := range requests {
		if err := a.opt.Delete(c.Request.Context(), req); err != nil {
			var shared *engine.SharedRowsError
			if errors.As(err, &shared) {
				return &engine.Error{Kind: engine.Execution, Err: shared}
			}
			return err
		}
	}
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}

// cleanTombstones does nothing: merges remove what is deleted.
func (a *API) cleanTombstones(c *Call) error {
	c.W.WriteHeader(http.StatusNoContent)
	return nil
}
