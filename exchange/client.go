package exchange

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"tsdbd/internal/version"
	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// PathPrefix is where the server's endpoints for these packages are.
const PathPrefix = "/api/tsdbd/"

// Trailers of an export.
const (
	TrailerPoints = "X-Tsdbd-Points"
	TrailerError  = "X-Tsdbd-Error"
)

// PositionHeader says how far the node that answers has applied the log of its cluster. A
// request that has it is answered by no less.
const PositionHeader = "X-Tsdbd-Position"

// Client talks to a running server. At any node of a cluster it reads what it has written.
type Client struct {
	URL                string // such as http://127.0.0.1:8086
	Username, Password string // none if empty
	Token              string // of InfluxDB 2.x and 3.x, in place of a user
	HTTP               *http.Client

	position atomic.Uint64 // the largest one of the answers
}

// Copy returns a client with the same address and login that has no answers yet.
func (c *Client) Copy() *Client {
	return &Client{URL: c.URL, Username: c.Username, Password: c.Password, Token: c.Token, HTTP: c.HTTP}
}

// CheckAddress refuses what is no address of a server.
func CheckAddress(address string) error {
	switch {
	case strings.TrimSpace(address) == "":
		return errors.New("the address of the server is empty")
	case strings.Contains(address, ","):
		return fmt.Errorf("%q: the command takes one address, not a list", address)
	}
	return nil
}

// CheckAddresses is CheckAddress for a list.
func CheckAddresses(list string) error {
	for address := range strings.SplitSeq(list, ",") {
		if err := CheckAddress(address); err != nil {
			return err
		}
	}
	return nil
}

// advance notes the position of an answer.
func (c *Client) advance(answer http.Header) {
	at, err := strconv.ParseUint(answer.Get(PositionHeader), 10, 64)
	for err == nil {
		if was := c.position.Load(); at <= was || c.position.CompareAndSwap(was, at) {
			return
		}
	}
}

// Do sends a request. An answer that is no success is a WriteError. The caller
// closes the body after a success.
func (c *Client) Do(ctx context.Context, method, path string, params url.Values, header http.Header, body io.Reader) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, strings.TrimRight(c.URL, "/")+path+"?"+params.Encode(), body)
	if err != nil {
		return nil, err
	}
	req.Header.Set("User-Agent", version.UserAgent())
	for k, v := range header {
		req.Header[k] = v
	}
	if c.Token != "" {
		req.Header.Set("Authorization", "Token "+c.Token)
	} else if c.Username != "" {
		req.SetBasicAuth(c.Username, c.Password)
	}
	if at := c.position.Load(); at > 0 {
		req.Header.Set(PositionHeader, strconv.FormatUint(at, 10))
	}
	h := c.HTTP
	if h == nil {
		h = http.DefaultClient
	}
	resp, err := h.Do(req)
	if err != nil {
		return nil, err
	}
	c.advance(resp.Header)
	return resp, answer(resp)
}

// Ask sends a request whose answer is small. The answer is decoded from JSON into
// to, unless to is nil.
func (c *Client) Ask(ctx context.Context, method, path string, params url.Values, header http.Header, body io.Reader, to any) error {
	resp, err := c.Do(ctx, method, path, params, header, body)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if to == nil {
		_, err = io.Copy(io.Discard, resp.Body)
	} else {
		err = json.NewDecoder(resp.Body).Decode(to)
	}
	if err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	return nil
}

// maxErrorText bounds what is read of an error's answer.
const maxErrorText = 64 << 10

// webPage is the message of a WriteError of a server of another kind.
const webPage = "a web page, no answer of tsdbd or InfluxDB: is this the right address?"

// answer returns the error that a response is, and closes its body then.
func answer(resp *http.Response) error {
	page := strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html")
	if resp.StatusCode/100 == 2 && !page {
		return nil
	}
	defer resp.Body.Close()
	if page {
		return &WriteError{Status: resp.StatusCode, Message: webPage, Dropped: -1}
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxErrorText))
	if err != nil {
		return err
	}
	var j struct{ Error, Message string } // InfluxDB 2.x has a message
	if json.Unmarshal(b, &j) != nil || j.Error+j.Message == "" {
		j.Error = cmp.Or(resp.Header.Get("X-Influxdb-Error"), strings.TrimSpace(string(b)))
	}
	j.Error = cmp.Or(j.Error, j.Message)
	e := &WriteError{Status: resp.StatusCode, Message: j.Error, Dropped: -1}
	if n, err := strconv.ParseInt(resp.Header.Get("X-Tsdbd-Dropped"), 10, 64); err == nil {
		e.Dropped = n
	}
	return e
}

// WriteError is an answer of a server that is not a success.
type WriteError struct {
	Status  int
	Message string
	Dropped int64 // lines of a write that were not stored; -1: the server does not say
}

// Error returns status and text.
func (e *WriteError) Error() string { return fmt.Sprintf("server answers %d: %s", e.Status, e.Message) }

// Temporary reports that the same request may succeed later.
func (e *WriteError) Temporary() bool {
	return e.Status == http.StatusTooManyRequests || e.Status >= 500 && !strings.Contains(e.Message, "retention policy not found")
}

// Ping returns an error if no server answers.
func (c *Client) Ping(ctx context.Context) error {
	return c.Ask(ctx, http.MethodGet, "/ping", nil, nil, nil, nil)
}

// Write sends lines.
func (c *Client) Write(ctx context.Context, db, rp, precision string, lines []byte) error {
	params := url.Values{"db": {db}}
	if rp != "" {
		params.Set("rp", rp)
	}
	if precision == "us" {
		precision = "u" // as /write spells it
	}
	if precision != "" {
		params.Set("precision", precision)
	}
	return c.Ask(ctx, http.MethodPost, "/write", params, nil, bytes.NewReader(lines), nil)
}

// WriteSeries sends VictoriaMetrics' lines of JSON. Without db the server chooses the
// database of Prometheus.
func (c *Client) WriteSeries(ctx context.Context, db, rp string, lines []byte) error {
	params := url.Values{}
	if db != "" {
		params.Set("db", db)
	}
	if rp != "" {
		params.Set("rp", rp)
	}
	return c.Ask(ctx, http.MethodPost, "/api/v1/import", params, nil, bytes.NewReader(lines), nil)
}

// policies returns the names of a database's retention policies; nil when there
// is no such database.
func (c *Client) policies(ctx context.Context, db string) ([]string, error) {
	r, err := c.Tables(ctx, "", "SHOW DATABASES")
	if err != nil {
		return nil, err
	}
	if !slices.Contains(first(r), db) {
		return nil, nil
	}
	if r, err = c.Tables(ctx, "", "SHOW RETENTION POLICIES ON "+QuoteIdent(db)); err != nil {
		return nil, err
	}
	return append([]string{}, first(r)...), nil
}

// Export copies the server's export to w. An export that breaks off is an
// error: its end is marked.
func (c *Client) Export(ctx context.Context, w io.Writer, opt ExportOptions) (int64, error) {
	p := opt.Filter.Params()
	for k, v := range map[string]bool{"gzip": opt.Gzip, "lponly": opt.LinesOnly} {
		if v {
			p.Set(k, "true")
		}
	}
	if opt.NewDatabase != "" {
		p.Set("newdb", opt.NewDatabase)
	}
	if opt.NewPolicy != "" {
		p.Set("newrp", opt.NewPolicy)
	}
	resp, err := c.Do(ctx, http.MethodGet, PathPrefix+"export", p, http.Header{"Accept-Encoding": {"identity"}}, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	if _, err := io.Copy(w, resp.Body); err != nil {
		return 0, fmt.Errorf("export: %w", err)
	}
	if e := resp.Trailer.Get(TrailerError); e != "" {
		return 0, errors.New(e)
	}
	n, err := strconv.ParseInt(resp.Trailer.Get(TrailerPoints), 10, 64)
	if err != nil {
		return 0, errors.New("export: the answer has no end")
	}
	return n, nil
}

// Create makes the databases and policies of data that f chooses, under the new
// names if there are any, and returns which databases it has made. A policy that exists stays
// as it is; kept names those.
func (c *Client) Create(ctx context.Context, data *meta.Data, f *Filter, newDatabase, newPolicy string) (made, kept []string, err error) {
	for _, d := range data.Databases {
		policies := f.policies(d)
		if len(policies) == 0 {
			continue
		}
		db := cmp.Or(newDatabase, d.Name)
		have, err := c.policies(ctx, db)
		if err != nil {
			return made, kept, fmt.Errorf("database %s: %w", db, err)
		}
		for i, s := range createStatements(d, policies, db, newPolicy) {
			name := cmp.Or(newPolicy, policies[i].Name)
			if slices.Contains(have, name) {
				kept = append(kept, db+"."+name)
				continue
			}
			if i == 0 && have != nil {
				// The database is there and keeps its default.
				_, def, _ := strings.Cut(s, " WITH ")
				def, _, _ = strings.Cut(def, " NAME ")
				s = fmt.Sprintf("CREATE RETENTION POLICY %s ON %s %s", QuoteIdent(name), QuoteIdent(db), def)
			}
			if age := policies[i].ColdAfter; age != 0 { // at once: a policy without it could go to a store that it must not
				s += syntax.ColdText(age)
			}
			if err := c.Query(ctx, s); err != nil {
				return made, kept, fmt.Errorf("%s: %w", s, err)
			}
			if i == 0 && have == nil {
				made = append(made, db)
			}
		}
	}
	return made, kept, nil
}
