package httpapi

import (
	"cmp"
	"net/http"
	"strings"
	"time"

	"tsdbd/httpapi/encode"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/engine"
	"tsdbd/prom/exposition"
	"tsdbd/prom/jsonline"
)

// importLines answers VictoriaMetrics' /api/v1/import.
func (h *Handler) importLines(w *response, r *request) error {
	extra, err := jsonline.ExtraLabels(r.URL.Query())
	if err != nil {
		return badRequest(err.Error())
	}
	return h.importSeries(w, r, 0, func(body []byte, rows *prom.Rows) (parsed, error) {
		left, err := jsonline.Read(body, extra, rows)
		return parsed{bad: left.First, lines: left.Count}, err
	})
}

// textPath is the route of the text form of metrics. Below it are the paths of a
// Pushgateway.
const textPath = "/api/v1/import/prometheus"

// importText answers VictoriaMetrics' /api/v1/import/prometheus.
func (h *Handler) importText(w *response, r *request) error {
	extra, err := jsonline.ExtraLabels(r.URL.Query())
	opt, wrong := exposition.ParseOptions(strings.TrimPrefix(r.path, textPath), r.URL.Query(), r.Header.Get("Content-Type"))
	if err = cmp.Or(err, wrong); err != nil {
		return badRequest(err.Error())
	}
	opt.Extra = append(opt.Extra, extra...)
	return h.importSeries(w, r, time.Millisecond, func(body []byte, rows *prom.Rows) (parsed, error) {
		entries, left, err := exposition.Read(body, opt, rows)
		return parsed{bad: left.First, lines: left.Count, metadata: entries}, err
	})
}

// importSeries stores a body that read adds to rows. Those without a time get one in a unit.
func (h *Handler) importSeries(w *response, r *request, unit time.Duration, read func(body []byte, rows *prom.Rows) (parsed, error)) error {
	parse := func(w *response, r *request, _ *target, table *point.Table, s *parseState) (left parsed, err error) {
		if s.body, err = h.readBody(w, r); err != nil {
			return parsed{}, err
		}
		rows := prom.Rows{Builder: point.NewBuilder(table, &s.batch), Charge: func(n int) error { return bodyError(s.body.Charge(n)) }}
		left, err = read(s.body.Bytes(), &rows)
		left.dropped, left.reason = rows.Refused, rows.Reason
		return left, err
	}
	return h.promStore(w, r, target{unit: int64(unit), parse: parse})
}

// exportLines answers VictoriaMetrics' /api/v1/export.
func (h *Handler) exportLines(w *response, r *request) error {
	if err := h.readForm(w, r); err != nil {
		return err
	}
	if err := h.checkTexts(r); err != nil {
		return err
	}
	return h.readSeries(w, r, func() ([]engine.Selection, answerSeries, error) {
		e, err := jsonline.ParseExport(r.Form)
		if err != nil {
			return nil, nil, badRequest(err.Error())
		}
		sets, err := h.opt.PromQL.Selectors(e.Match)
		if err != nil {
			return nil, nil, badRequest(err.Error())
		}
		var selections []engine.Selection
		for _, matchers := range sets {
			selections = append(selections, engine.Selection{Start: e.Start, End: e.End, Matchers: matchers})
		}
		return selections, func(w *response, out *encode.Output, in seriesReader) error {
			w.Header().Set("Content-Type", "application/stream+json")
			lines := jsonline.NewWriter(e.Rows, encode.AppendString, func(line []byte) error {
				return out.Append(func(dst []byte) []byte { return append(dst, line...) })
			})
			err := in.each(func(_ int, s engine.Series) error { return lines.Add(s) })
			if err != nil {
				return err
			}
			if !out.AnySent() {
				w.WriteHeader(http.StatusOK) // an answer without series has a header too
			}
			_ = out.Flush() // the client is gone if this fails
			return nil
		}, nil
	})
}
