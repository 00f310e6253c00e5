package influxhttp

import (
	"errors"
	"fmt"
	"io"

	"tsdbd/exchange"
	"tsdbd/model"
)

// rowSink takes the rows of an answer as they arrive.
type rowSink interface {
	// series begins a series, or continues the last one.
	series(name string, tags model.Tags, columns []string) error
	// row takes a row of the series. The values are valid until the call returns.
	row(values []value) error
}

// errTruncated is the error of an answer that ends before its rows do.
var errTruncated = errors.New("a limit of the server has truncated the answer")

// errForm is the error of an answer that is none of InfluxDB.
var errForm = errors.New("this is no answer of InfluxDB")

// maxText bounds a string of an answer. InfluxDB takes strings of 64 KiB; other servers
// bound requests.
const maxText = 64 << 20

// form is a form of answers, JSON or MessagePack, read piece by piece.
type form interface {
	// more reports whether another document follows.
	more() (bool, error)
	// object calls member for each member of an object. member reads its value.
	object(member func(key string) error) error
	// array calls element for each element of an array. element reads it.
	array(element func(i int) error) error
	// string appends a string to dst.
	string(dst []byte) ([]byte, error)
	// value reads a value of a row.
	value(v *value) error
	// skip reads a value of any kind.
	skip() error
}

// answer reads an answer: documents of the form {"results":[{"series":[{"name","tags",
// "columns","values"}]}]}, one after the other. It holds one row at a time.
type answer struct {
	form
	sink    rowSink
	name    string
	tags    model.Tags
	columns []string
	values  []value
	partial bool // the latest result says that another document follows
}

// readAnswer gives sink the rows of an answer. An answer without any document has none.
func readAnswer(f form, sink rowSink) error {
	a := &answer{form: f, sink: sink}
	for {
		more, err := a.more()
		if err != nil {
			return err
		}
		if !more {
			break
		}
		a.partial = false
		if err := a.object(a.document); errors.Is(err, io.EOF) {
			return io.ErrUnexpectedEOF
		} else if err != nil {
			return err
		}
	}
	if a.partial {
		return errTruncated
	}
	return nil
}

// document takes a member of a document.
func (a *answer) document(key string) error {
	switch key {
	case "error":
		return a.fail()
	case "results":
		return a.array(func(int) error { return a.object(a.result) })
	}
	return a.skip()
}

// fail returns the error that a member "error" is.
func (a *answer) fail() error {
	b, err := a.string(nil)
	if err != nil {
		return err
	}
	return &exchange.QueryError{Text: string(b)}
}

// result takes a member of the result of a statement.
func (a *answer) result(key string) error {
	switch key {
	case "error":
		return a.fail()
	case "series":
		return a.array(func(int) error {
			a.name, a.tags, a.columns = "", nil, nil
			return a.object(a.series)
		})
	case "partial":
		var v value
		err := a.value(&v)
		a.partial = v.bits != 0
		return err
	}
	return a.skip()
}

// series takes a member of a series.
func (a *answer) series(key string) error {
	switch key {
	case "name":
		b, err := a.string(nil)
		a.name = string(b)
		return err
	case "tags":
		return a.object(func(key string) error {
			var v value
			err := a.value(&v) // null in InfluxDB 3.x
			a.tags = append(a.tags, model.Tag{Key: key, Value: string(v.text)})
			return err
		})
	case "columns":
		return a.array(func(int) error {
			b, err := a.string(nil)
			a.columns = append(a.columns, string(b))
			return err
		})
	case "values":
		if len(a.columns) == 0 {
			return fmt.Errorf("%w: a series has values before the names of its columns", errForm)
		}
		a.tags.Sort()
		for len(a.values) < len(a.columns) {
			a.values = append(a.values, value{})
		}
		if err := a.sink.series(a.name, a.tags, a.columns); err != nil {
			return err
		}
		return a.array(func(int) error { return a.row() })
	}
	return a.skip()
}

// row reads a row.
func (a *answer) row() error {
	n := 0
	err := a.array(func(i int) error {
		if n++; n > len(a.columns) {
			return fmt.Errorf("%w: a row has more values than there are columns", errForm)
		}
		v := &a.values[i]
		v.text, v.bits = v.text[:0], 0
		return a.value(v)
	})
	if err != nil {
		return err
	}
	if n != len(a.columns) {
		return fmt.Errorf("%w: a row has %d values for %d columns", errForm, n, len(a.columns))
	}
	return a.sink.row(a.values[:n])
}
