package apptest

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
	"testing"
)

// TestBoards follows a board through a kill, a backup, and a restore under a new name.
func TestBoards(t *testing.T) {
	t.Parallel()
	s := Start(t)
	f := func(at *Server, request, body string, status int, want string) {
		t.Helper()
		method, target, _ := strings.Cut(request, " ")
		path, query, _ := strings.Cut(target, "?")
		params, _ := url.ParseQuery(query)
		got, answer, err := at.Do(t.Context(), method, path, params, body)
		if err != nil || got != status || !strings.Contains(answer, want) {
			t.Errorf("%s: %d %s %v, want %d %s", request, got, answer, err, status, want)
		}
	}
	s.Query("", "CREATE DATABASE db")
	f(s, "POST /api/boards?db=db", `{"name":"Host","board":{"version":1,"panels":[{"title":"CPU"}]}}`, 201, `{"id":"2","name":"Host","edition":1}`)

	// What was answered is there after a kill, however often. An edition is given once.
	for edition := 1; edition <= 3; edition++ {
		f(s, "PUT /api/boards/2?db=db", fmt.Sprintf(`{"name":"Host","edition":%d,"board":{"version":1,"panels":[{"title":"CPU %d"}]}}`, edition, edition), 200, fmt.Sprintf(`"edition":%d`, edition+1))
		s.Kill()
		s.Restart()
		f(s, "GET /api/boards/2?db=db", "", 200, fmt.Sprintf(`"edition":%d,"board":{"version":1,"panels":[{"title":"CPU %d"}]}}`, edition+1, edition))
		f(s, "PUT /api/boards/2?db=db", fmt.Sprintf(`{"name":"Late","edition":%d,"board":{"version":1,"panels":[]}}`, edition), 409, fmt.Sprintf(`"edition":%d}`, edition+1))
	}

	// A backup has the board. It comes back under the new name of its database.
	repo, dir := t.TempDir(), t.TempDir()
	for _, args := range [][]string{{"backup", "-host", s.URL, repo}, {"restore", "-data", dir, "-db", "db", "-newdb", "copy", repo}} {
		if out, err := command(t, args...); err != nil {
			t.Fatalf("%v: %v %s", args, err, out)
		}
	}
	other := StartOn(t, dir)
	f(other, "GET /api/boards?db=copy", "", 200, `"id":"2","name":"Host","edition":4,`)
	f(other, "GET /api/boards?db=db", "", 404, "database not found")

	s.Query("", "DROP DATABASE db")
	s.Query("", "CREATE DATABASE db")
	f(s, "GET /api/boards?db=db", "", 200, `{"boards":[]}`)
	other.Stop()
	s.Stop()

	// The report of a stopped server lists them.
	if out, err := command(t, "inspect", "report", dir); err != nil || !regexp.MustCompile(`\nboards: 1\nname +id +edition +bytes\n"Host" +2 +4 +\d+\n`).MatchString(out) {
		t.Errorf("inspect report: %v\n%s", err, out)
	}
}

// TestBoardsOfANode: the node of a cluster refuses boards until its log may have them, and says what to do.
func TestBoardsOfANode(t *testing.T) {
	t.Parallel()
	s := Start(t, alone(t, "n1")...)
	s.Query("", "CREATE DATABASE db")
	const board = `{"name":"Host","board":{"version":1,"panels":[]}}`
	if status, answer := s.Send("/api/boards?db=db", board); status != 501 || !strings.Contains(answer, "tsdbd cluster finish-upgrade") {
		t.Errorf("before the upgrade is finished: %d %s", status, answer)
	}
	if out, err := command(t, "cluster", "finish-upgrade", "-host", s.URL); err != nil {
		t.Fatalf("%v %s", err, out)
	}
	if status, answer := s.Send("/api/boards?db=db", board); status != 201 {
		t.Errorf("after it: %d %s", status, answer)
	}
	s.Stop()
}
