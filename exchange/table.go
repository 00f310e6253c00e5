package exchange

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
)

// Table is a series of an answer to InfluxQL. Its numbers are json.Number.
type Table struct {
	Name    string
	Columns []string
	Values  [][]any
}

// At returns the value of a row in the first of the named columns that there is.
func (t *Table) At(row []any, names ...string) any {
	for _, name := range names {
		for i, c := range t.Columns {
			if c == name && i < len(row) {
				return row[i]
			}
		}
	}
	return nil
}

// Text returns the value as a string, "" if it is none.
func (t *Table) Text(row []any, names ...string) string {
	s, _ := t.At(row, names...).(string)
	return s
}

// QueryError is an error that a server reports within an answer to InfluxQL.
type QueryError struct{ Text string }

// Error returns the text of the server.
func (e *QueryError) Error() string { return e.Text }

// maxAnswer bounds an answer that is held as a whole: names of measurements and fields.
const maxAnswer = 256 << 20

// ReadTables reads an answer to InfluxQL in JSON. It returns io.EOF for an answer of nothing.
func ReadTables(r io.Reader) ([]Table, error) {
	var a struct {
		Error   string
		Results []struct {
			Error  string
			Series []Table
		}
	}
	d := json.NewDecoder(io.LimitReader(r, maxAnswer))
	d.UseNumber()
	if err := d.Decode(&a); err != nil {
		return nil, err
	}
	var out []Table
	for _, r := range a.Results {
		if r.Error != "" {
			return nil, &QueryError{r.Error}
		}
		out = append(out, r.Series...)
	}
	if a.Error != "" {
		return nil, &QueryError{a.Error}
	}
	return out, nil
}

// Tables runs a statement of InfluxQL whose answer is small. database is the one of names
// without a database; it may be "".
func (c *Client) Tables(ctx context.Context, database, statement string) ([]Table, error) {
	params := url.Values{}
	if database != "" {
		params.Set("db", database)
	}
	form := http.Header{"Content-Type": {"application/x-www-form-urlencoded"}}
	resp, err := c.Do(ctx, http.MethodPost, "/query", params, form, strings.NewReader(url.Values{"q": {statement}}.Encode()))
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	tables, err := ReadTables(resp.Body)
	var refused *QueryError
	if err != nil && !errors.As(err, &refused) {
		err = fmt.Errorf("read answer: %w", err)
	}
	return tables, err
}

// Query runs a statement and returns its error.
func (c *Client) Query(ctx context.Context, statement string) error {
	_, err := c.Tables(ctx, "", statement)
	return err
}

// first returns the texts in the first column of tables.
func first(tables []Table) (out []string) {
	for _, t := range tables {
		for _, row := range t.Values {
			if len(row) > 0 {
				if text, ok := row[0].(string); ok {
					out = append(out, text)
				}
			}
		}
	}
	return out
}
