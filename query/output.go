package query

import "tsdbd/query/result"

// output passes the results of one statement to the consumer.
type output struct {
	statement int
	chunk     int
	emit      func(*result.Result) error
	messages  []result.Message // go with the first result
	sent      bool
	rows      int64
	err       error // the consumer's
}

// send emits one result.
func (o *output) send(r *result.Result) error {
	if o.err != nil {
		return o.err
	}
	r.StatementID = o.statement
	r.Messages = append(o.messages, r.Messages...)
	o.messages, o.sent = nil, true
	for _, series := range r.Series {
		o.rows += int64(series.Rows)
	}
	o.err = o.emit(r)
	return o.err
}

// finish sends an empty result if the statement had none.
func (o *output) finish() error {
	if o.sent {
		return nil
	}
	return o.send(&result.Result{})
}

// together emits complete tables in one result, as InfluxDB does for statements that it
// does not run as a SELECT.
func (o *output) together(all []*result.Series) error {
	if len(all) == 0 {
		return nil
	}
	return o.send(&result.Result{Series: all})
}

// separately emits complete tables, each in a result of its own if there is a chunk size.
func (o *output) separately(all []*result.Series) error {
	if o.chunk <= 0 {
		return o.together(all)
	}
	for _, s := range all {
		if err := o.together([]*result.Series{s}); err != nil {
			return err
		}
	}
	return nil
}

// chunked emits complete tables, cut to the chunk size if there is one.
func (o *output) chunked(all []*result.Series) error {
	if o.chunk <= 0 {
		return o.together(all)
	}
	for i, s := range all {
		for lo := 0; lo < s.Rows || lo == 0; lo += o.chunk {
			hi := min(lo+o.chunk, s.Rows)
			part := *s
			part.Values = nil
			for c := range s.Values {
				part.Values = append(part.Values, s.Values[c].Slice(lo, hi))
			}
			part.Rows, part.Partial = hi-lo, hi < s.Rows
			last := i == len(all)-1 && !part.Partial
			if err := o.send(&result.Result{Series: []*result.Series{&part}, Partial: !last}); err != nil {
				return err
			}
		}
	}
	return nil
}
