package prometheus

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"mime"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/golang/snappy"

	"tsdbd/exchange"
	"tsdbd/exchange/rows"
	"tsdbd/model"
	"tsdbd/prom"
	"tsdbd/prom/block"
	"tsdbd/prom/chunk"
	"tsdbd/prom/remote"
	"tsdbd/transfer/mover"
)

// slice is how much time a request reads.
const slice = 24 * time.Hour

// Server is a mover.Source of the samples that a running Prometheus answers to remote read:
// metric by metric, a day at a time. Options.Range begins where the past of the server does.
type Server struct {
	past
	client *exchange.Client
}

// NewServer returns the source of the Prometheus of a client.
func NewServer(client *exchange.Client, opt Options) *Server {
	return &Server{past: past{opt: opt}, client: client}
}

// Parts implements mover.Source.
func (s *Server) Parts(ctx context.Context, _ *exchange.Filter) iter.Seq2[*mover.Part, error] {
	return func(yield func(*mover.Part, error) bool) {
		all := s.opt.Range
		for begin := all.Min; begin <= all.Max; {
			times := model.TimeRange{Min: begin, Max: min(begin-begin%int64(slice)+int64(slice)-1, all.Max)}
			names, err := metrics(ctx, s.client, times, s.opt.Match)
			if err != nil {
				yield(nil, err)
				return
			}
			for _, name := range names {
				for i := range max(1, len(s.opt.Match)) {
					open := func(ctx context.Context) (rows.Reader, error) {
						r, err := s.read(ctx, times, name, i)
						if err != nil {
							err = fmt.Errorf("metric %s of %s: %w", name, time.Unix(0, times.Min).UTC().Format(time.DateOnly), err)
						}
						return r, err
					}
					if !yield(s.part(fmt.Sprintf("%d %q %d", times.Min, name, i), open), nil) {
						return
					}
				}
			}
			begin = times.Max + 1
		}
	}
}

// metrics returns the names of metrics in a range of times.
func metrics(ctx context.Context, from *exchange.Client, times model.TimeRange, match []block.Selector) ([]string, error) {
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

// read asks for the samples of a metric that a selector chooses.
func (s *Server) read(ctx context.Context, times model.TimeRange, name string, selector int) (rows.Reader, error) {
	var match block.Selector
	if len(s.opt.Match) > 0 {
		match = s.opt.Match[selector]
	}
	q := remote.NewQuery(name, prom.Milliseconds(times.Min), prom.Milliseconds(times.Max), match)
	header := http.Header{
		"Content-Type": {"application/x-protobuf"}, "Content-Encoding": {"snappy"},
		"X-Prometheus-Remote-Read-Version": {"0.1.0"},
	}
	body := snappy.Encode(nil, remote.AppendReadRequest(nil, q))
	resp, err := s.client.Do(ctx, http.MethodPost, "/api/v1/read", nil, header, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if media, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); media != "application/x-streamed-protobuf" {
		text, _ := io.ReadAll(io.LimitReader(resp.Body, 200))
		_ = resp.Body.Close() // the answer is of no use
		return nil, fmt.Errorf("the answer is %q, not a stream of chunks; is it a Prometheus of version 2.13 or later? %s", media, strings.ToValidUTF8(string(text), "?"))
	}
	stream := remote.NewStream(resp.Body, chunk.Options{Range: times, Refused: s.refused})
	return &answered{stream, resp.Body}, nil
}

// answered is a reader of an answer.
type answered struct {
	rows.Reader
	answer io.Closer
}

// Close implements rows.Reader.
func (b *answered) Close() error { return errors.Join(b.Reader.Close(), b.answer.Close()) }
