package httpapi

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/influxdata/influxql"

	"tsdbd/query"
)

// readOnlyError is the answer to a request that may only read and has statements that
// change something. Its form in JSON names them.
type readOnlyError struct {
	Message string         `json:"error"`
	Refused []query.Change `json:"refused"`
}

func (e *readOnlyError) Error() string { return e.Message }

// document returns the error in JSON.
func (e *readOnlyError) document(pretty bool) []byte {
	indent := ""
	if pretty {
		indent = "    "
	}
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", indent)
	_ = enc.Encode(e) // texts and booleans have a form in JSON
	return b.Bytes()
}

// maxRefused bounds the part of a refused statement that is in the error.
const maxRefused = 200

// refuseChanges returns an error if a query has statements that change something.
// database is that of the request.
func refuseChanges(q *influxql.Query, database string) error {
	refused := query.Changes(q, database)
	if len(refused) == 0 {
		return nil
	}
	text := refused[0].Statement
	if len(text) > maxRefused {
		text = text[:maxRefused] + "..."
	}
	if db := refused[0].Database; db != "" {
		text = fmt.Sprintf("%s (database %q)", text, db)
	}
	return &readOnlyError{"read_only=true refuses a statement that changes something: " + text, refused}
}
