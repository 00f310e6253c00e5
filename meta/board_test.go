package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
)

// boardOf returns the content of a board with a text.
func boardOf(text string) json.RawMessage {
	b, err := json.Marshal(map[string]any{"version": 1, "text": text})
	if err != nil {
		panic(err)
	}
	return b
}

// TestBoards follows two boards through their changes, and the refusals that there are.
func TestBoards(t *testing.T) {
	large := boardOf(strings.Repeat("x", MaxBoardBytes))
	d := empty()
	f := func(cmd Command, want error) {
		t.Helper()
		next, err := Apply(cmd, d)
		if !errors.Is(err, want) {
			t.Fatalf("%+v: %v, want %v", cmd, err, want)
		}
		if err == nil {
			d = next
		}
	}
	stale := func(cmd Command, newest uint64) {
		t.Helper()
		var old *BoardEditionError
		if _, err := Apply(cmd, d); !errors.As(err, &old) || old.Newest != newest {
			t.Fatalf("%+v: %v, want an error with edition %d", cmd, err, newest)
		}
	}
	f(PutBoard{Database: "m", Name: "Host", Content: boardOf("a")}, ErrDatabaseNotFound)
	f(CreateDatabase{Name: "m"}, nil)
	f(PutBoard{Database: "m", Name: "Host", Content: boardOf("a"), Time: 5}, nil)
	f(PutBoard{Database: "m", Name: "Host", Content: boardOf("b")}, nil) // a name need not be unique
	first, second := d.Database("m").Boards[0], d.Database("m").Boards[1]
	if first.ID == second.ID || first.Edition != 1 || first.Changed != 5 {
		t.Fatalf("new boards %+v and %+v", first, second)
	}

	before := d
	f(PutBoard{Database: "m", ID: first.ID, Edition: 1, Name: "Hosts", Content: boardOf("c"), Time: 6}, nil)
	if b := d.Database("m").Board(first.ID); b.Edition != 2 || b.Name != "Hosts" || b.Changed != 6 || d.Database("m").Boards[1] != second {
		t.Fatalf("changed board %+v", b)
	}
	if before.Database("m").Boards[0] != first || first.Name != "Host" {
		t.Fatal("a catalog that a reader has was changed")
	}
	stale(PutBoard{Database: "m", ID: first.ID, Edition: 1, Name: "x", Content: boardOf("d")}, 2)
	stale(PutBoard{Database: "m", ID: first.ID, Edition: 3, Name: "x", Content: boardOf("d")}, 2)
	stale(DropBoard{"m", first.ID, 1}, 2)

	f(PutBoard{Database: "m", Edition: 1, Name: "x", Content: boardOf("d")}, ErrBoardInvalid)
	f(PutBoard{Database: "m", ID: 99, Edition: 1, Name: "x", Content: boardOf("d")}, ErrBoardNotFound)
	f(DropBoard{"m", 99, 1}, ErrBoardNotFound)
	f(DropBoard{"n", 99, 1}, ErrDatabaseNotFound)
	for _, name := range []string{"", "a\nb", "\xff", strings.Repeat("x", MaxNameLength+1)} {
		f(PutBoard{Database: "m", Name: name, Content: boardOf("d")}, ErrBoardInvalid)
	}
	for _, content := range []string{"", "[]", "{", "1", "null"} {
		f(PutBoard{Database: "m", Name: "x", Content: json.RawMessage(content)}, ErrBoardInvalid)
	}
	f(PutBoard{Database: "m", Name: "x", Content: large}, ErrBoardTooLarge)

	// The id of a board that is gone is not given again.
	f(DropBoard{"m", second.ID, 1}, nil)
	f(PutBoard{Database: "m", Name: "Host", Content: boardOf("b")}, nil)
	if next := d.Database("m").Boards[1]; next.ID <= second.ID {
		t.Fatalf("id %d after %d", next.ID, second.ID)
	}
	if err := d.validate(); err != nil {
		t.Fatal(err)
	}

	// A database takes its boards along, and another of the same name has none.
	f(DropDatabase{"m"}, nil)
	f(CreateDatabase{Name: "m"}, nil)
	if n, bytes := d.BoardTotals(); n != 0 || bytes != 0 {
		t.Fatalf("%d boards with %d bytes are left", n, bytes)
	}
}

// TestBoardBounds: a server has so many boards, and so many bytes of boards, over all databases. A change
// and a drop of a board are possible at the bound.
func TestBoardBounds(t *testing.T) {
	for _, size := range []int{10, MaxBoardBytes - 100} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			d := empty()
			must := func(cmd Command) {
				t.Helper()
				next, err := Apply(cmd, d)
				if err != nil {
					t.Fatal(err)
				}
				d = next
			}
			must(CreateDatabase{Name: "a"})
			must(CreateDatabase{Name: "b"})
			content := boardOf(strings.Repeat("x", size))
			for i := 0; ; i++ {
				next, err := Apply(PutBoard{Database: []string{"a", "b"}[i%2], Name: "x", Content: content}, d)
				if errors.Is(err, ErrTooManyBoards) {
					break
				} else if err != nil {
					t.Fatal(err)
				}
				d = next
			}
			n, bytes := d.BoardTotals()
			if n > MaxBoards || bytes > MaxBoardTotal || n < MaxBoards && bytes+len(content)+1 <= MaxBoardTotal {
				t.Fatalf("%d boards with %d bytes", n, bytes)
			}
			b := d.Database("a").Boards[0]
			must(PutBoard{Database: "a", ID: b.ID, Edition: 1, Name: "y", Content: content})
			must(DropBoard{"a", b.ID, 2})
			must(PutBoard{Database: "b", Name: "x", Content: content})
		})
	}
}

// TestBoardContent: a catalog file has the bytes of a board as the catalog had them.
func TestBoardContent(t *testing.T) {
	content, err := BoardContent([]byte("{ \"version\" : 1, \"text\": \"<a & b>\u2028\" }\n"))
	if err != nil {
		t.Fatal(err)
	}
	d, err := Apply(CreateDatabase{Name: "m"}, empty())
	if err == nil {
		d, err = Apply(PutBoard{Database: "m", Name: "x", Content: content}, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	again, err := Copy(d)
	if err != nil {
		t.Fatal(err)
	}
	if got := again.Database("m").Boards[0].Content; string(got) != string(content) {
		t.Errorf("%s comes back as %s", content, got)
	}
	for _, bad := range []string{"", "{", "{\"a\":\"\xff\"}"} {
		if _, err := BoardContent([]byte(bad)); err == nil {
			t.Errorf("%q is accepted", bad)
		}
	}
}

// TestReadsVersion8: a catalog of the version that knows no boards is read. The next Save that
// writes the files anew gives them the present version.
func TestReadsVersion8(t *testing.T) {
	const name = "testdata/catalog-v8.golden"
	b, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	d, _, err := decode(name, b)
	if err != nil || d.Database("metrics") == nil {
		t.Fatalf("%+v, %v", d, err)
	}
}
