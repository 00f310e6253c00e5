package files

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"tsdbd/board"
	"tsdbd/board/grafana"
	"tsdbd/exchange"
)

// maxFile bounds the size of a file that is imported. Dashboards are larger than the boards they become.
const maxFile = 8 << 20

// Server is a server whose boards are moved, and what the flags of the command say.
type Server struct {
	Client exchange.Client

	database, out, format, name string
	asJSON, replace             bool
	stdout, stderr              io.Writer
}

// listed is a board of a server.
type listed struct {
	Database string    `json:"database"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Edition  uint64    `json:"edition"`
	Bytes    int       `json:"bytes"`
	Changed  time.Time `json:"changed"`
}

// file is a board in a file, and in a request.
type file struct {
	Name    string          `json:"name"`
	Edition uint64          `json:"edition,omitempty"`
	Board   json.RawMessage `json:"board"`
}

// boards returns the boards of the database, or of all that the user may read.
func (s *Server) boards(ctx context.Context) (out []listed, err error) {
	names := []string{s.database}
	if s.database == "" {
		if names, err = s.databases(ctx); err != nil {
			return nil, err
		}
	}
	for _, db := range names {
		var answer struct{ Boards []listed }
		if err := s.Client.Ask(ctx, "GET", "/api/boards", url.Values{"db": {db}}, nil, nil, &answer); err != nil {
			return nil, fmt.Errorf("boards of %s: %w", db, err)
		}
		for _, b := range answer.Boards {
			b.Database = db
			out = append(out, b)
		}
	}
	return out, nil
}

func (s *Server) databases(ctx context.Context) (names []string, err error) {
	tables, err := s.Client.Tables(ctx, "", "SHOW DATABASES")
	for _, t := range tables {
		for _, row := range t.Values {
			names = append(names, t.Text(row, "name"))
		}
	}
	return names, err
}

// list writes the boards as a table, or as JSON.
func (s *Server) list(ctx context.Context) error {
	boards, err := s.boards(ctx)
	if err != nil {
		return err
	}
	if s.asJSON {
		return json.NewEncoder(s.stdout).Encode(append([]listed{}, boards...))
	}
	t := tabwriter.NewWriter(s.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "DATABASE\tID\tNAME\tEDITION\tBYTES\tCHANGED")
	for _, b := range boards {
		fmt.Fprintf(t, "%s\t%s\t%s\t%d\t%d\t%s\n", oneLine(b.Database), b.ID, oneLine(b.Name), b.Edition, b.Bytes, b.Changed.Format(time.RFC3339))
	}
	return t.Flush()
}

// oneLine quotes a name that has a control character, as anybody could have given it.
func oneLine(name string) string {
	if q := strconv.Quote(name); strings.Contains(q, `\`) {
		return q
	}
	return name
}

// export writes the boards with these ids or names, or all of them.
func (s *Server) export(ctx context.Context, which []string) error {
	all, err := s.boards(ctx)
	if err != nil {
		return err
	}
	chosen, err := choose(all, which)
	switch {
	case err != nil:
		return err
	case len(chosen) == 0:
		return errors.New("there are no boards")
	case s.out == "" && len(chosen) > 1:
		return useError("there are %d boards: name one, or a directory with -out", len(chosen))
	case s.out != "":
		if err := os.MkdirAll(s.out, 0o777); err != nil {
			return err
		}
	}
	taken := map[string]bool{}
	for _, b := range chosen {
		content, err := s.content(ctx, b)
		if err != nil {
			return fmt.Errorf("board %s %s: %w", b.ID, oneLine(b.Name), err)
		}
		if s.out == "" {
			_, err := s.stdout.Write(content)
			return err
		}
		path := filepath.Join(s.out, fileName(b, taken))
		if err := os.WriteFile(path, content, 0o666); err != nil {
			return err
		}
		if _, err := fmt.Fprintln(s.stdout, path); err != nil {
			return err
		}
	}
	return nil
}

// choose returns the boards with these ids or names. An id comes before a name.
func choose(all []listed, which []string) (out []listed, err error) {
	if len(which) == 0 {
		return all, nil
	}
	for _, want := range which {
		var found []listed
		for _, is := range []func(listed) bool{
			func(b listed) bool { return b.ID == want },
			func(b listed) bool { return b.Name == want },
		} {
			if found = slices.DeleteFunc(slices.Clone(all), func(b listed) bool { return !is(b) }); len(found) > 0 {
				break
			}
		}
		switch len(found) {
		case 0:
			return nil, fmt.Errorf("there is no board with the id or name %q", want)
		case 1:
			out = append(out, found[0])
		default:
			return nil, fmt.Errorf("%d boards have the name %q: choose one by its id, see tsdbd board list", len(found), want)
		}
	}
	return out, nil
}

// content returns a board in the format that was asked for.
func (s *Server) content(ctx context.Context, b listed) ([]byte, error) {
	var f file
	if err := s.Client.Ask(ctx, "GET", "/api/boards/"+b.ID, url.Values{"db": {b.Database}}, nil, nil, &f); err != nil {
		return nil, err
	}
	if s.format == "tsdbd" {
		f.Edition = 0
		out, err := json.MarshalIndent(f, "", "  ")
		return append(out, '\n'), err
	}
	doc, err := board.Parse(f.Board)
	if err != nil {
		return nil, err
	}
	out, notes, err := grafana.Export(f.Name, doc)
	s.notes(f.Name, notes)
	return out, err
}

var notOfFiles = regexp.MustCompile(`[^\pL\pN._-]+`)

// fileName returns a name that no other board of the export has, also where names of files have one case.
func fileName(b listed, taken map[string]bool) string {
	name := strings.TrimLeft(notOfFiles.ReplaceAllString(b.Name, "-"), ".-")
	if len(name) > 100 || name == "" {
		name = "board-" + b.ID
	}
	if taken[strings.ToLower(name)] {
		name += "-" + b.ID
	}
	taken[strings.ToLower(name)] = true
	return name + ".json"
}

func (s *Server) notes(of string, notes []string) {
	for _, n := range notes {
		fmt.Fprintf(s.stderr, "%s: %s\n", oneLine(of), n)
	}
}

// importFiles creates a board of each file and says so. It stops at the first one that it cannot import.
func (s *Server) importFiles(ctx context.Context, paths []string) error {
	for _, path := range paths {
		said, err := s.importFile(ctx, path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if _, err := fmt.Fprintln(s.stdout, said); err != nil {
			return err
		}
	}
	return nil
}

func (s *Server) importFile(ctx context.Context, path string) (said string, err error) {
	raw, err := readFile(path)
	if err != nil {
		return "", err
	}
	f, notes, err := parse(raw)
	if err != nil {
		return "", err
	}
	s.notes(path, notes)
	if s.name != "" {
		f.Name = s.name
	}
	if f.Name == "" {
		f.Name = strings.TrimSuffix(filepath.Base(path), ".json")
	}
	method, at, action := http.MethodPost, "/api/boards", "created"
	if s.replace {
		all, err := s.boards(ctx)
		if err != nil {
			return "", err
		}
		if slices.ContainsFunc(all, func(b listed) bool { return b.Name == f.Name }) {
			old, err := choose(slices.DeleteFunc(all, func(b listed) bool { return b.Name != f.Name }), []string{f.Name})
			if err != nil {
				return "", err
			}
			method, at, action, f.Edition = http.MethodPut, "/api/boards/"+old[0].ID, "replaced", old[0].Edition
		}
	}
	body, err := json.Marshal(f)
	if err != nil {
		return "", err
	}
	var made listed
	if err := s.Client.Ask(ctx, method, at, url.Values{"db": {s.database}}, http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(body), &made); err != nil {
		return "", err
	}
	return fmt.Sprintf("%s board %s %s, edition %d", action, made.ID, oneLine(made.Name), made.Edition), nil
}

func readFile(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(raw) > maxFile {
		err = fmt.Errorf("it has more than %d MiB", maxFile>>20)
	}
	return raw, err
}

// parse returns the board of a file: what Export or the page has written, a document alone, or a dashboard.
func parse(raw []byte) (f file, notes []string, err error) {
	if !json.Valid(raw) {
		return f, nil, errors.New("it is not JSON")
	}
	if grafana.Is(raw) {
		var doc board.Document
		if f.Name, doc, notes, err = grafana.Import(raw); err == nil {
			f.Board, err = json.Marshal(doc)
		}
		return f, notes, err
	}
	if err := json.Unmarshal(raw, &f); err != nil || f.Board == nil {
		f = file{Board: raw}
	}
	f.Edition = 0
	f.Board, err = board.Check(f.Board)
	if err != nil {
		return f, nil, fmt.Errorf("it is neither a board nor a dashboard of Grafana: %w", err)
	}
	return f, nil, nil
}
