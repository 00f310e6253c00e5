package influxhttp

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
)

// Server is a running server that rows are taken out of.
type Server struct {
	client *exchange.Client
	// Product names the server and its version.
	Product string
	kind    serverKind
	version string
	// skew is how far the server's clock is ahead of ours.
	skew time.Duration
}

type serverKind byte

const (
	unknownServer serverKind = iota // takes the requests of 1.x and answers JSON
	influx1
	influx2
	influx3
	tsdbd
)

// pingTime is how long a server has for its first answer.
const pingTime = 30 * time.Second

// Connect finds out what server a client talks to.
func Connect(ctx context.Context, client *exchange.Client) (*Server, error) {
	client = client.Copy()
	h := http.Client{}
	if client.HTTP != nil {
		h = *client.HTTP
	}
	if h.Transport == nil {
		h.Transport = http.DefaultTransport
	}
	h.Transport = guard{h.Transport}
	client.HTTP = &h
	ctx, cancel := context.WithTimeoutCause(ctx, pingTime, fmt.Errorf("the server has not answered for %s", pingTime))
	defer cancel()
	resp, err := client.Do(ctx, http.MethodGet, "/ping", nil, nil, nil)
	if err != nil && errors.Is(err, context.DeadlineExceeded) {
		err = cmp.Or(context.Cause(ctx), err)
	}
	if err != nil {
		return nil, explain(err)
	}
	defer resp.Body.Close()
	_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, 1<<10)) // so that the connection is used again
	s := &Server{client: client}
	s.version = strings.TrimPrefix(resp.Header.Get("X-Influxdb-Version"), "v")
	switch own := resp.Header.Get("X-Tsdbd-Version"); {
	case own != "":
		s.kind, s.Product = tsdbd, "tsdbd "+own
	case strings.HasPrefix(s.version, "1."):
		s.kind, s.Product = influx1, "InfluxDB "+s.version
	case strings.HasPrefix(s.version, "2."):
		s.kind, s.Product = influx2, "InfluxDB "+s.version
	case strings.HasPrefix(s.version, "3."):
		s.kind, s.Product = influx3, "InfluxDB "+s.version
	default:
		s.Product = "a server that does not tell its version"
	}
	if at, err := http.ParseTime(resp.Header.Get("Date")); err == nil {
		s.skew = time.Until(at).Round(time.Second)
	}
	return s, nil
}

// Skew returns how far the clock of the server is ahead of ours, in whole seconds.
func (s *Server) Skew() time.Duration { return s.skew }

// Now returns the time by the clock of the server.
func (s *Server) Now() time.Time { return time.Now().Add(s.skew) }

// place is a retention policy of a database, by the names that the target has.
type place struct{ database, policy string }

// autogen is the policy of a database of InfluxDB 3.x, which has none.
const autogen = "autogen"

// database returns what the parameter db is for a place. InfluxDB 3.x keeps what 1.x
// clients write to a policy in a database named "database/policy".
func (s *Server) database(p place) string {
	if s.kind == influx3 && p.policy != autogen && p.policy != "" {
		return p.database + "/" + p.policy
	}
	return p.database
}

// source returns what FROM names.
func (s *Server) source(p place, measurement string) string {
	if s.kind == influx3 {
		return exchange.QuoteIdent(measurement)
	}
	return exchange.QuoteIdent(p.policy) + "." + exchange.QuoteIdent(measurement)
}

// longQuery is the length from which a query is sent as a form: URLs have limits, and
// InfluxDB 3.x takes queries in URLs alone.
const longQuery = 6000

// do sends a query.
func (s *Server) do(ctx context.Context, p place, q, accept string, params url.Values) (*http.Response, error) {
	if params == nil {
		params = url.Values{}
	}
	if p.database != "" {
		params.Set("db", s.database(p))
	}
	if s.kind == influx2 && p.policy != "" {
		params.Set("rp", p.policy) // each mapping has a bucket
	}
	params.Set("epoch", "ns")
	// Compressed answers cost both sides more than a local network does.
	header := http.Header{"Accept": {accept}, "Accept-Encoding": {"identity"}}
	if len(q) < longQuery || s.kind == influx3 {
		params.Set("q", q)
		return s.client.Do(ctx, http.MethodGet, "/query", params, header, nil)
	}
	header.Set("Content-Type", "application/x-www-form-urlencoded")
	return s.client.Do(ctx, http.MethodPost, "/query", params, header, strings.NewReader(url.Values{"q": {q}}.Encode()))
}

// ask runs a statement whose answer is small.
func (s *Server) ask(ctx context.Context, p place, q string) ([]exchange.Table, error) {
	resp, err := s.do(ctx, p, q, "application/json", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	tables, err := exchange.ReadTables(resp.Body)
	var refused *exchange.QueryError
	switch {
	case err == io.EOF: // InfluxDB 3.x has nothing to say
		return nil, nil
	case err == nil, errors.Is(err, errStalled), errors.As(err, &refused):
		return tables, err
	}
	return nil, fmt.Errorf("%w: %w", errForm, err)
}

// tables is a rowSink that keeps the texts of an answer.
type tables struct{ list []exchange.Table }

func (t *tables) series(name string, _ model.Tags, columns []string) error {
	t.list = append(t.list, exchange.Table{Name: name, Columns: columns})
	return nil
}

func (t *tables) row(values []value) error {
	row := make([]any, len(values))
	for i, v := range values {
		if v.kind == text {
			row[i] = string(v.text)
		}
	}
	of := &t.list[len(t.list)-1]
	of.Values = append(of.Values, row)
	return nil
}

// maxNames bounds an answer with names.
const maxNames = 256 << 20

// askNames runs a statement that shows names of points. It asks for MessagePack where the
// server has it: JSON has no bytes that are not UTF-8, which names may have.
func (s *Server) askNames(ctx context.Context, p place, q string) ([]exchange.Table, error) {
	if s.kind == influx3 || s.kind == unknownServer {
		return s.ask(ctx, p, q)
	}
	resp, err := s.do(ctx, p, q, "application/x-msgpack", nil)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	var out tables
	err = readAnswer(formOf(resp, io.LimitReader(resp.Body, maxNames)), &out)
	return out.list, err
}

// formOf returns the form of an answer.
func formOf(resp *http.Response, body io.Reader) form {
	if strings.Contains(resp.Header.Get("Content-Type"), "msgpack") {
		return newMsgpack(body)
	}
	return newJSON(body)
}

// policy returns what names the policy of a place in queries; "" if nothing does.
func (s *Server) policy(p place) string {
	if s.kind == influx3 {
		return ""
	}
	return p.policy
}

// countsSeries reports whether a count of series has each of them once. Before 1.8,
// InfluxDB counts a series once for each shard.
func (s *Server) countsSeries() bool {
	for _, early := range []string{"1.0.", "1.1.", "1.2.", "1.3.", "1.4.", "1.5.", "1.6.", "1.7."} {
		if s.kind == influx1 && strings.HasPrefix(s.version, early) {
			return false
		}
	}
	return true
}
