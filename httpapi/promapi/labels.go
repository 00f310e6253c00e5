package promapi

import (
	"context"
	"errors"
	"strings"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/httpapi/encode"
	"tsdbd/prom/engine"
)

// series answers with the labels of series.
func (a *API) series(c *Call) error {
	if len(c.Request.Form["match[]"]) == 0 {
		return badData("no match[] parameter provided")
	}
	l, err := a.lookup(c)
	if err != nil {
		return err
	}
	if l.Selectors, err = a.selectors(c); err != nil {
		return parameterError(err, "match[]")
	}
	all := list{Call: c}
	out, err := a.opt.Engine.Series(c.Request.Context(), l, func(ls labels.Labels) error {
		return all.add(func(b []byte) []byte { return appendLabels(b, ls) })
	})
	if err != nil {
		return err
	}
	return all.end(out)
}

// labelNames answers with the names of labels.
func (a *API) labelNames(c *Call) error {
	return a.texts(c, a.opt.Engine.LabelNames)
}

// labelValues answers label/NAME/values.
func (a *API) labelValues(c *Call) error {
	name, ok := strings.CutSuffix(c.Rest, "/values")
	if !ok {
		return &engine.Error{Kind: engine.NotFound, Err: errNoSuchPath}
	}
	if strings.HasPrefix(name, "U__") {
		name = model.UnescapeName(name, model.ValueEncodingEscaping)
	}
	if !model.UTF8Validation.IsValidLabelName(name) {
		return badData("invalid label name: %q", name)
	}
	return a.texts(c, func(ctx context.Context, l *engine.Lookup) ([]string, *engine.Outcome, error) {
		return a.opt.Engine.LabelValues(ctx, l, name)
	})
}

// texts answers with names or values.
func (a *API) texts(c *Call, find func(context.Context, *engine.Lookup) ([]string, *engine.Outcome, error)) error {
	l, err := a.lookup(c)
	if err != nil {
		return err
	}
	if l.Selectors, err = a.selectors(c); err != nil {
		return err
	}
	texts, out, err := find(c.Request.Context(), l)
	if err != nil {
		return err
	}
	all := list{Call: c}
	for _, text := range texts {
		if err := all.add(func(b []byte) []byte { return encode.AppendString(b, text) }); err != nil {
			return err
		}
	}
	return all.end(out)
}

var errNoSuchPath = errors.New("there is only label/NAME/values")
