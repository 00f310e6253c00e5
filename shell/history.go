package shell

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"regexp"
	"slices"
)

// maxHistory bounds the lines that are kept.
const maxHistory = 1000

// secret finds lines that must not be kept.
var secret = regexp.MustCompile(`(?i)\bpassword\b|^\s*auth\s`)

// pastLines are the lines of the past, each a JSON text in a line of a file. Lines with
// a password are not kept.
type pastLines struct {
	path  string // "": no file
	lines []string
}

// openHistory reads the lines of a file. A file that cannot be read is empty.
func openHistory(path string) *pastLines {
	h := &pastLines{path: path}
	f, err := os.Open(path)
	if err != nil {
		return h
	}
	defer f.Close()
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		var line string
		if json.Unmarshal(in.Bytes(), &line) == nil {
			h.lines = append(h.lines, line)
		}
	}
	h.lines = h.lines[max(0, len(h.lines)-maxHistory):]
	return h
}

// Write adds a line.
func (h *pastLines) Write(line string) (int, error) {
	if line == "" || secret.MatchString(line) || len(h.lines) > 0 && h.lines[len(h.lines)-1] == line {
		return len(h.lines), nil
	}
	h.lines = append(h.lines, line)
	if h.path == "" {
		return len(h.lines), nil
	}
	f, err := os.OpenFile(h.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return len(h.lines), err
	}
	text, err := json.Marshal(line)
	if err == nil {
		_, err = f.Write(append(text, '\n'))
	}
	return len(h.lines), errors.Join(err, f.Close())
}

// GetLine returns a line by its number.
func (h *pastLines) GetLine(i int) (string, error) {
	if i < 0 || i >= len(h.lines) {
		return "", errors.New("there is no such line")
	}
	return h.lines[i], nil
}

// Len returns the number of lines.
func (h *pastLines) Len() int { return len(h.lines) }

// Dump returns the lines.
func (h *pastLines) Dump() any { return h.list() }

func (h *pastLines) list() []string { return slices.Clone(h.lines) }
