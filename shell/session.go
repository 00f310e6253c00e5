package shell

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"tsdbd/exchange"
	"tsdbd/query/syntax"
)

// Formats are the names of formats of answers.
var formats = []string{"table", "column", "vertical", "json", "csv", "line"}

// precisions are the units of times in answers. rfc3339 is text.
var precisions = []string{"rfc3339", "ns", "u", "ms", "s", "m", "h"}

// Settings are what statements and their answers depend on.
type Settings struct {
	Database        string
	RetentionPolicy string
	Language        string // one of influxql, promql
	Range           Range  // of PromQL
	Precision       string // one of rfc3339, ns, u, ms, s, m, h
	Format          string // one of table, column, vertical, json, csv, line
	Pretty          bool   // indents json
	Plot            bool   // draws numbers over time
	ReadOnly        bool   // has the server refuse what changes something
	Partial         bool   // answers from what damage has left
	ChunkSize       int    // rows of a part of an answer
}

// Check returns an error if a setting has no meaning.
func (s *Settings) Check() error {
	if err := oneOf("format", s.Format, formats); err != nil {
		return err
	}
	if err := oneOf("language", s.Language, languages); err != nil {
		return err
	}
	if _, err := s.Range.times(time.Now()); err != nil {
		return err
	}
	if s.ChunkSize < 1 {
		return fmt.Errorf("the chunk size is a positive number, not %d", s.ChunkSize)
	}
	return oneOf("precision", s.Precision, precisions)
}

func oneOf(what, value string, known []string) error {
	for _, k := range known {
		if value == k {
			return nil
		}
	}
	return fmt.Errorf("the %s is one of %s, not %q", what, strings.Join(known, ", "), value)
}

// Session is a dialog with a server.
type Session struct {
	Settings
	Client *exchange.Client
	Out    io.Writer
	Width  int    // columns of the terminal; 0: Out is none
	Height int    // its rows
	Pager  string // the command of sh that shows longer answers; "": none
	// secret asks for a text that is not shown; nil: there is nobody to ask.
	secret func(question string) (string, error)
	// history returns the lines of the past; nil: there are none.
	history func() []string
}

// lines is the media type of line protocol, which only tsdbd answers with.
const lines = "application/line-protocol"

// ErrExit is the error of a line that ends the session.
var ErrExit = errors.New("exit")

// ErrStatement says that the answer had an error, which has been written.
var ErrStatement = errors.New("a statement failed")

// Line runs a line: a command of the shell or statements. On a terminal a pager shows
// what is longer than the screen.
func (s *Session) Line(ctx context.Context, line string) error {
	if s.Pager == "" || s.Height == 0 {
		return s.run(ctx, line)
	}
	terminal := s.Out
	p := &pager{out: terminal, program: s.Pager, height: s.Height}
	s.Out = p
	err := s.run(ctx, line)
	s.Out = terminal
	if errors.Is(err, errLeft) {
		err = nil
	}
	return errors.Join(err, p.Close())
}

func (s *Session) run(ctx context.Context, line string) error {
	line = strings.TrimSpace(line)
	if ignored(line) {
		return nil
	}
	if known, err := s.command(ctx, line); known {
		return err
	}
	if s.promQL() {
		return s.askPromQL(ctx, line)
	}
	return s.query(ctx, line)
}

// formatter returns what writes tables.
func (s *Session) formatter() formatter {
	switch {
	case s.Plot:
		return &plotter{out: s.Out, width: s.Width}
	case s.Format == "csv":
		return &csvWriter{out: csv.NewWriter(s.Out)}
	}
	c := &columns{out: s.Out, boxed: s.Format == "table", vertical: s.Format == "vertical", width: s.Width}
	if s.Width > 0 {
		c.limit = maxRows
	}
	return c
}

// query sends statements of InfluxQL and writes the answer.
func (s *Session) query(ctx context.Context, text string) error {
	switch {
	case s.Plot:
	case s.Format == "json":
		return s.copy(ctx, text, "application/json")
	case s.Format == "csv":
		return s.copy(ctx, text, "application/csv")
	case s.Format == "line":
		return s.copy(ctx, text, lines)
	}
	return s.ask(ctx, text, s.formatter())
}

// ask sends statements and hands the answer to f.
func (s *Session) ask(ctx context.Context, text string, f formatter) error {
	params := url.Values{"chunked": {"true"}, "chunk_size": {fmt.Sprint(s.ChunkSize)}}
	resp, err := s.send(ctx, text, params, "application/json")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	return readAnswer(resp.Body, f, s.Out, s.done(text))
}

// copy sends statements and writes the answer as it comes, in a media type.
func (s *Session) copy(ctx context.Context, text, media string) error {
	params := url.Values{}
	if media == lines {
		params.Set("chunked", "true") // lifts max-row-limit
	}
	if s.Pretty && media == "application/json" {
		params.Set("pretty", "true")
	}
	resp, err := s.send(ctx, text, params, media)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if got := resp.Header.Get("Content-Type"); media == lines && got != media {
		return fmt.Errorf("the server answers with %s: it does not have the format %s", got, s.Format)
	}
	return s.copyBody(resp, media)
}

// copyBody writes an answer as it comes.
func (s *Session) copyBody(resp *http.Response, media string) error {
	var f failure
	if _, err := io.Copy(io.MultiWriter(s.Out, &f), resp.Body); err != nil {
		return fmt.Errorf("read answer: %w", err)
	}
	if text, ok := f.found(media); ok {
		return fmt.Errorf("%w: %s", ErrStatement, printable(text))
	}
	// CSV has no place for the error of one statement.
	if said := slices.Concat(resp.Header[errorHeader], resp.Trailer[errorHeader]); len(said) > 0 {
		return errors.New(printable(strings.Join(said, "; ")))
	}
	return nil
}

// errorHeader is the header, or the trailer, with the errors of statements.
const errorHeader = "X-Influxdb-Error"

// send sends statements. The caller closes the body of the answer.
func (s *Session) send(ctx context.Context, text string, params url.Values, media string) (*http.Response, error) {
	maps.Copy(params, s.source())
	params.Set("hints", "true")
	switch {
	case s.Plot:
		params.Set("epoch", "ns")
	case s.Precision == "rfc3339":
		params.Set("time_format", "rfc3339") // CSV has numbers otherwise
	default:
		params.Set("epoch", s.Precision)
	}
	if s.ReadOnly {
		params.Set("read_only", "true")
	}
	header := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}, "Accept": {media}}
	resp, err := s.Client.Do(ctx, http.MethodPost, "/query", params, header, strings.NewReader(url.Values{"q": {text}}.Encode()))
	if err != nil {
		return nil, plain(err)
	}
	return resp, nil
}

// done returns what to say of each statement that changes something and answers with
// nothing, and "" for others. Only tables for people say it. It is nil if the grammar
// does not have the text.
func (s *Session) done(text string) []string {
	parsed, err := syntax.Parse(text, nil)
	if err != nil {
		return nil
	}
	words := make([]string, len(parsed.Statements))
	for i, st := range parsed.Statements {
		said := st.String() // without passwords
		if s.Format == "table" && !s.Plot && !slices.Contains([]string{"SELECT", "SHOW", "EXPLAIN"}, firstWord(said)) {
			words[i] = "done: " + said
		}
	}
	return words
}

// refusal is an answer that is no success, in the server's words.
type refusal struct{ answer *exchange.WriteError }

func (r *refusal) Error() string { return r.answer.Message }
func (r *refusal) Unwrap() error { return r.answer }

// plain returns the error of a request in the server's words.
func plain(err error) error {
	if refused, ok := errors.AsType[*exchange.WriteError](err); ok {
		return &refusal{refused}
	}
	return err
}

// hint returns what can be done at the prompt about an error, or "".
func hint(err error) string {
	switch refused, ok := errors.AsType[*exchange.WriteError](err); {
	case ok && refused.Status == http.StatusUnauthorized:
		return "log in with auth USER"
	case ok && strings.Contains(refused.Message, "HTTP request to an HTTPS server"):
		return "the server takes https: connect https://HOST:PORT"
	case errors.Is(err, http.ErrSchemeMismatch):
		return "the server takes http: connect http://HOST:PORT"
	}
	return ""
}
