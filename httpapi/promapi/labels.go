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
	if err := c.head(); err != nil {
		return err
	}
	count := 0
	out, err := a.opt.Engine.Series(c.Request.Context(), l, func(ls labels.Labels) error {
		count++
		return c.append(func(b []byte) []byte { return appendLabels(append(b, opening(count)), ls) })
	})
	if err != nil {
		return err
	}
	return c.closeList(count, out)
}

// opening returns what stands before an element of a list.
func opening(count int) byte {
	if count == 1 {
		return '['
	}
	return ','
}

// closeList ends an answer with a list.
func (c *Call) closeList(count int, out *engine.Outcome) error {
	err := c.append(func(b []byte) []byte {
		if count == 0 {
			b = append(b, '[')
		}
		return append(b, ']')
	})
	if err != nil {
		return err
	}
	return c.tail(out)
}

// labelNames answers with the names of labels.
func (a *API) labelNames(c *Call) error {
	return a.list(c, a.opt.Engine.LabelNames)
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
	return a.list(c, func(ctx context.Context, l *engine.Lookup) ([]string, *engine.Outcome, error) {
		return a.opt.Engine.LabelValues(ctx, l, name)
	})
}

// list answers with texts.
func (a *API) list(c *Call, find func(context.Context, *engine.Lookup) ([]string, *engine.Outcome, error)) error {
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
	if err := c.head(); err != nil {
		return err
	}
	for i, text := range texts {
		err := c.append(func(b []byte) []byte { return encode.AppendString(append(b, opening(i+1)), text) })
		if err != nil {
			return err
		}
	}
	return c.closeList(len(texts), out)
}

var errNoSuchPath = errors.New("there is only label/NAME/values")
