package mover

import (
	"context"
	"iter"
	"slices"
	"testing"

	"tsdbd/exchange"
	"tsdbd/meta"
)

// noting is a sink that says the same of each database.
type noting struct{ Sink }

// Create implements Sink.
func (noting) Create(_ context.Context, m *Move, databases []*meta.Database) error {
	for _, d := range databases {
		m.Note(d.Name + " is there already")
	}
	return nil
}

// Define implements Sink.
func (noting) Define(context.Context, *exchange.Definitions) (exchange.Defined, error) {
	return exchange.Defined{}, nil
}

// Parts implements Sink.
func (noting) Parts(_ context.Context, _ *Move, parts iter.Seq2[*Part, error]) iter.Seq2[*Part, error] {
	return parts
}

// TestOnce moves twice, as one that follows a server does, and is told each thing once.
func TestOnce(t *testing.T) {
	var said []string
	opt := Options{Note: Once(func(text string) { said = append(said, text) })}
	src := &List{}
	for _, name := range []string{"d", "e"} {
		src.All.Databases = append(src.All.Databases, &meta.Database{Name: name})
	}
	for range 2 {
		if _, err := Run(t.Context(), src, noting{}, opt); err != nil {
			t.Fatal(err)
		}
	}
	if want := []string{"d is there already", "e is there already"}; !slices.Equal(said, want) {
		t.Errorf("said %q, want %q", said, want)
	}
}
