package boards

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/board"
	"tsdbd/meta"
)

// Options configure an API. Catalog and Apply must be set.
type Options struct {
	Catalog func() *meta.Data
	Apply   func(ctx context.Context, cmd meta.Command) error
	// Registry receives the metrics. nil: there are none.
	Registry prometheus.Registerer
}

// API answers requests about boards.
type API struct {
	opt Options
}

// New returns an API.
func New(opt Options) *API {
	a := &API{opt: opt}
	if opt.Registry != nil {
		gauge := func(name, help string, value func() int) {
			opt.Registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "tsdbd_boards" + name, Help: help}, func() float64 { return float64(value()) }))
		}
		gauge("", "Boards in the catalog.", func() int { n, _ := opt.Catalog().BoardTotals(); return n })
		gauge("_bytes", "Bytes of all boards in the catalog.", func() int { _, n := opt.Catalog().BoardTotals(); return n })
	}
	return a
}

// listed is a board in a list.
type listed struct {
	ID      string    `json:"id"`
	Name    string    `json:"name"`
	Edition uint64    `json:"edition"`
	Bytes   int       `json:"bytes"`
	Changed time.Time `json:"changed"`
}

// whole is the answer about one board. Board is nil after a change.
type whole struct {
	ID      string          `json:"id"`
	Name    string          `json:"name"`
	Edition uint64          `json:"edition"`
	Board   json.RawMessage `json:"board,omitempty"`
}

// sent is what a client sends to create or change a board.
type sent struct {
	Name    string          `json:"name"`
	Edition uint64          `json:"edition"`
	Board   json.RawMessage `json:"board"`
}

// Serve answers a request about the boards of a database. Its user may read the database, or, with a
// method other than GET, write it. id is that of the board, "" for all. Serve returns an error of the
// store or the catalog without an answer.
func (a *API) Serve(w http.ResponseWriter, r *http.Request, db, id string, body []byte) error {
	d := a.opt.Catalog().Database(db)
	if d == nil {
		return fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, db)
	}
	if id == "" && r.Method == http.MethodGet {
		list := make([]listed, 0, len(d.Boards))
		for _, b := range d.Boards {
			list = append(list, listed{idText(b.ID), b.Name, b.Edition, len(b.Content), time.Unix(0, b.Changed).UTC().Truncate(time.Second)})
		}
		return answer(w, http.StatusOK, map[string]any{"boards": list})
	}
	number, err := strconv.ParseUint(id, 10, 64)
	if id != "" && (err != nil || d.Board(number) == nil) {
		return refuse(w, fmt.Errorf("%w: %.40s", meta.ErrBoardNotFound, id))
	}
	switch r.Method {
	case http.MethodGet:
		b := d.Board(number)
		return answer(w, http.StatusOK, whole{idText(b.ID), b.Name, b.Edition, b.Content})
	case http.MethodDelete:
		edition, err := strconv.ParseUint(r.URL.Query().Get("edition"), 10, 64)
		if err != nil {
			return refuse(w, fmt.Errorf("%w: the parameter edition must be the edition that is deleted", meta.ErrBoardInvalid))
		}
		if err := a.opt.Apply(r.Context(), meta.DropBoard{Database: db, ID: number, Edition: edition}); err != nil {
			return refuse(w, err)
		}
		w.WriteHeader(http.StatusNoContent)
		return nil
	}
	put, err := read(body)
	if err != nil {
		return refuse(w, err)
	}
	put.Database, put.ID = db, number
	if number != 0 && put.Edition == 0 {
		return refuse(w, fmt.Errorf("%w: edition must be the edition that the change began from", meta.ErrBoardInvalid))
	}
	status, made := http.StatusOK, whole{id, put.Name, put.Edition + 1, nil}
	if number == 0 {
		status = http.StatusCreated
		made.ID, err = a.create(r.Context(), put)
	} else {
		err = a.opt.Apply(r.Context(), put)
	}
	if err != nil {
		return refuse(w, err)
	}
	return answer(w, status, made)
}

// read returns the change that a body asks for. It keeps nothing of the body.
func read(body []byte) (meta.PutBoard, error) {
	var s sent
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return meta.PutBoard{}, fmt.Errorf("%w: the body is not an object with name, edition and board: %w", meta.ErrBoardInvalid, err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) || s.Board == nil {
		return meta.PutBoard{}, fmt.Errorf("%w: the body must be one object, with a board", meta.ErrBoardInvalid)
	}
	content, err := board.Check(s.Board)
	return meta.PutBoard{Name: s.Name, Edition: s.Edition, Content: content, Time: time.Now().UnixNano()}, err
}

// create creates a board and returns its id.
func (a *API) create(ctx context.Context, put meta.PutBoard) (string, error) {
	before := a.opt.Catalog().Index
	if err := a.opt.Apply(ctx, put); err != nil {
		return "", err
	}
	if d := a.opt.Catalog().Database(put.Database); d != nil {
		for _, b := range d.Boards {
			if b.ID > before && b.Changed == put.Time && b.Name == put.Name {
				return idText(b.ID), nil
			}
		}
	}
	return "", fmt.Errorf("%w: it was deleted at once", meta.ErrBoardNotFound)
}

func idText(id uint64) string { return strconv.FormatUint(id, 10) }

// refuse answers with an error of a client. Other errors it returns.
func refuse(w http.ResponseWriter, err error) error {
	document := struct {
		Error   string `json:"error"`
		Edition uint64 `json:"edition,omitempty"` // the newest one
	}{Error: err.Error()}
	status := 0
	var old *meta.BoardEditionError
	switch {
	case errors.As(err, &old):
		status, document.Edition = http.StatusConflict, old.Newest
	case errors.Is(err, meta.ErrBoardNotFound):
		status = http.StatusNotFound
	case errors.Is(err, meta.ErrBoardInvalid):
		status = http.StatusBadRequest
	case errors.Is(err, meta.ErrBoardTooLarge):
		status = http.StatusRequestEntityTooLarge
	case errors.Is(err, meta.ErrTooManyBoards):
		status = http.StatusInsufficientStorage
	case errors.Is(err, meta.ErrLogFormat):
		status = http.StatusNotImplemented
	default:
		return err
	}
	return answer(w, status, document)
}

// answer answers with a JSON document.
func answer(w http.ResponseWriter, status int, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(b, '\n')) // the client is gone if this fails
	return nil
}
