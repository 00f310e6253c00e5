package meta

import (
	"encoding/json"
	"errors"
	"fmt"
	"iter"
	"slices"
	"unicode/utf8"
)

// Bounds of boards. A board counts as the bytes of its name and its content.
const (
	MaxBoards     = 1000      // of a server
	MaxBoardBytes = 256 << 10 // of one board
	MaxBoardTotal = 16 << 20  // of all boards of a server, in bytes
)

// Board is a page of panels that a person has saved. The catalog does not interpret the content.
type Board struct {
	ID      uint64 // the Index of the first catalog that has it; never reused
	Name    string
	Edition uint64          // 1 for a new board, then one more for each change
	Changed int64           // the wall clock of the last change, ns since the epoch
	Content json.RawMessage // a JSON object in the form of BoardContent
}

// BoardContent returns a document in the form that a catalog keeps: without spaces and, as in all of
// a catalog, with <, > and & escaped.
func BoardContent(document []byte) (json.RawMessage, error) {
	if !utf8.Valid(document) {
		return nil, errors.New("a text is not valid UTF-8")
	}
	return json.Marshal(json.RawMessage(document))
}

// bytes returns what the board counts as.
func (b *Board) bytes() int { return len(b.Name) + len(b.Content) }

// PutBoard creates a board, or replaces the edition of one that is the newest.
type PutBoard struct {
	Database string
	ID       uint64 `json:",omitempty"` // 0: a new board
	Edition  uint64 `json:",omitempty"` // that the change began from; 0 for a new board
	Name     string
	Content  json.RawMessage // in the form of BoardContent
	Time     int64           // the wall clock, ns since the epoch
}

// DropBoard removes a board whose newest edition is Edition.
type DropBoard struct {
	Database    string
	ID, Edition uint64
}

// BoardEditionError refuses a change that began from an edition that is not the newest.
type BoardEditionError struct{ ID, Edition, Newest uint64 }

func (e *BoardEditionError) Error() string {
	return fmt.Sprintf("board %d has edition %d, the change began from edition %d", e.ID, e.Newest, e.Edition)
}

// Board returns a board by its id, nil if there is none.
func (db *Database) Board(id uint64) *Board {
	for _, b := range db.Boards {
		if b.ID == id {
			return b
		}
	}
	return nil
}

// Boards returns the boards of all databases.
func (d *Data) Boards() iter.Seq2[*Database, *Board] {
	return func(yield func(*Database, *Board) bool) {
		for _, db := range d.Databases {
			for _, b := range db.Boards {
				if !yield(db, b) {
					return
				}
			}
		}
	}
}

// BoardTotals returns how many boards there are, and the bytes that they count as.
func (d *Data) BoardTotals() (count, bytes int) {
	for _, b := range d.Boards() {
		count++
		bytes += b.bytes()
	}
	return count, bytes
}

func (c PutBoard) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		next := &Board{ID: c.ID, Name: c.Name, Edition: c.Edition + 1, Changed: c.Time, Content: c.Content}
		count, bytes := d.BoardTotals()
		at := len(db.Boards)
		switch {
		case c.ID != 0:
			var err error
			if at, err = db.boardAt(c.ID, c.Edition); err != nil {
				return false, err
			}
			count, bytes = count-1, bytes-db.Boards[at].bytes()
		case c.Edition != 0:
			return false, fmt.Errorf("%w: a new board has no edition to begin from", ErrBoardInvalid)
		default:
			next.ID = d.Index + 1
		}
		if err := next.check(); err != nil {
			return false, err
		}
		switch {
		case next.bytes() > MaxBoardBytes:
			return false, fmt.Errorf("%w: it has %d bytes, a board may have %d", ErrBoardTooLarge, next.bytes(), MaxBoardBytes)
		case count >= MaxBoards:
			return false, fmt.Errorf("%w: a server may have %d", ErrTooManyBoards, MaxBoards)
		case bytes+next.bytes() > MaxBoardTotal:
			return false, fmt.Errorf("%w: all together would have %d bytes, a server may have %d", ErrTooManyBoards, bytes+next.bytes(), MaxBoardTotal)
		}
		boards := slices.Clone(db.Boards)
		if at == len(boards) {
			boards = append(boards, nil)
		}
		boards[at] = next
		db.Boards = boards
		return true, nil
	})
}

func (c DropBoard) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		at, err := db.boardAt(c.ID, c.Edition)
		if err != nil {
			return false, err
		}
		db.Boards = slices.Delete(slices.Clone(db.Boards), at, at+1)
		return true, nil
	})
}

// boardAt returns the place of a board if an edition is its newest.
func (db *Database) boardAt(id, edition uint64) (int, error) {
	at := slices.IndexFunc(db.Boards, func(b *Board) bool { return b.ID == id })
	if at < 0 {
		return 0, fmt.Errorf("%w: %d", ErrBoardNotFound, id)
	}
	if newest := db.Boards[at].Edition; newest != edition {
		return 0, &BoardEditionError{id, edition, newest}
	}
	return at, nil
}

// check returns an error if the catalog cannot keep the board.
func (b *Board) check() error {
	switch {
	case b.Name == "" || len(b.Name) > MaxNameLength || !validName(b.Name):
		return fmt.Errorf("%w: its name must have 1 to %d bytes, without control characters", ErrBoardInvalid, MaxNameLength)
	case len(b.Content) == 0 || b.Content[0] != '{' || !json.Valid(b.Content):
		return fmt.Errorf("%w: its content is not a JSON object", ErrBoardInvalid)
	}
	return nil
}

// validateBoards is validate for boards.
func (d *Data) validateBoards() error {
	seen := map[uint64]bool{}
	for db, b := range d.Boards() {
		if b == nil || b.ID == 0 || b.ID > d.Index || seen[b.ID] || b.Edition == 0 || b.check() != nil {
			return fmt.Errorf("boards of database %q are inconsistent", db.Name)
		}
		seen[b.ID] = true
	}
	return nil
}
