package mover

import "context"

// Lines takes the rows of a part whose form is text, such as line protocol. It belongs to one
// goroutine. After an error of the target each method returns it.
type Lines interface {
	// Put takes a line. The target has it stored or refused when the part is finished.
	Put(l *Line) error
	// Refuse counts and keeps a row of the source that does not become a line.
	Refuse(reason string, l *Line) error
	// Query runs a statement of the source after the lines before it are stored. What the
	// server says against it is counted.
	Query(statement string) error
}

// Line is a row of a source as text. Its slices are valid during a call.
type Line struct {
	Database, Policy string // of the target; "": the defaults of the server
	Text             []byte // without its line break
	// From, if set, is the row that became the line. It is kept in place of the line, if it is
	// refused.
	From *Row
}

// Row is a row of a source whose form is not line protocol.
type Row struct {
	Number int    // of its line in the part, for messages
	Text   []byte // valid during a call
	Head   []byte // what a file needs above the row; it does not change after the call
}

// LineSink is an optional interface of a Sink that takes lines as well.
type LineSink interface {
	// PutLines is Put for a part that has Lines. An error of the target is a TargetError.
	PutLines(ctx context.Context, p *Part, t *Tally) error
}

// TargetError is an error of the target of a part, and not of its source.
type TargetError struct{ Err error }

// Error implements error.
func (e *TargetError) Error() string { return e.Err.Error() }

// Unwrap returns the error of the target.
func (e *TargetError) Unwrap() error { return e.Err }
