package prometheus

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang/snappy"

	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/block"
	"tsdbd/prom/chunk"
	"tsdbd/prom/remote"
	"tsdbd/transfer"
)

// slice is how much time a request reads.
const slice = 24 * time.Hour

// Server sends the samples that a running Prometheus answers to remote read: metric by
// metric, a day at a time. opt.Range begins where the past of the server does. An import
// that has a journal continues after the requests that it has finished.
func Server(ctx context.Context, to, from *transfer.Client, opt Options) (Result, error) {
	return move(ctx, to, "Prometheus at "+from.URL, opt, func(m *mover) error {
		for begin := opt.Range.Min; begin <= opt.Range.Max; {
			times := model.TimeRange{Min: begin, Max: min(begin-begin%int64(slice)+int64(slice)-1, opt.Range.Max)}
			names, err := metrics(ctx, from, times, opt.Match)
			if err != nil {
				return err
			}
			for _, name := range names {
				for i := range max(1, len(opt.Match)) {
					part := fmt.Sprintf("%d %q %d", times.Min, name, i)
					if err := m.read(ctx, from, times, name, i, part); err != nil {
						return fmt.Errorf("metric %s of %s: %w", name, time.Unix(0, times.Min).UTC().Format(time.DateOnly), err)
					}
				}
			}
			begin = times.Max + 1
		}
		return nil
	})
}

// metrics returns the names of metrics in a range of times.
func metrics(ctx context.Context, from *transfer.Client, times model.TimeRange, match []block.Selector) ([]string, error) {
	params := url.Values{"start": {seconds(times.Min)}, "end": {seconds(times.Max)}}
	for _, s := range match {
		params.Add("match[]", s.String())
	}
	var answer struct {
		Status, Error string
		Data          []string
	}
	if err := from.Ask(ctx, http.MethodGet, "/api/v1/label/"+prom.NameLabel+"/values", params, nil, nil, &answer); err != nil {
		return nil, fmt.Errorf("ask for the metrics: %w", err)
	}
	if answer.Status != "success" {
		return nil, fmt.Errorf("ask for the metrics: %s", answer.Error)
	}
	slices.Sort(answer.Data)
	return answer.Data, nil
}

func seconds(at int64) string {
	return strconv.FormatFloat(float64(prom.Milliseconds(at))/1000, 'f', 3, 64)
}

// read sends the samples of a metric that a selector chooses.
func (m *mover) read(ctx context.Context, from *transfer.Client, times model.TimeRange, name string, selector int, part string) error {
	var match block.Selector
	if len(m.opt.Match) > 0 {
		match = m.opt.Match[selector]
	}
	q := remote.NewQuery(name, prom.Milliseconds(times.Min), prom.Milliseconds(times.Max), match)
	header := http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"},
		"X-Prometheus-Remote-Read-Version": {"0.1.0"},
	}
	body := snappy.Encode(nil, remote.AppendReadRequest(nil, q))
	resp, err := from.Do(ctx, http.MethodPost, "/api/v1/read", nil, header, bytes.NewReader(body))
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "application/x-streamed-protobuf" {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		return fmt.Errorf("the answer is %q, not a stream of chunks; is it a Prometheus of version 2.13 or later? %s", media, strings.ToValidUTF8(string(text), "?"))
	}
	stream := remote.NewStream(resp.Body, chunk.Options{Range: times, Refused: m.refused})
	return m.part(ctx, stream, part)
}
