package main

import (
	"fmt"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
)

// reopenedFile is a file that is written to until reopen makes it anew: whoever
// rotates logs renames it and sends SIGHUP.
type reopenedFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// openReopened opens a file to append to.
func openReopened(path string) (*reopenedFile, error) {
	f, err := openLog(path)
	if err != nil {
		return nil, fmt.Errorf("open access log: %w", err)
	}
	return &reopenedFile{path: path, file: f}, nil
}

// Write implements io.Writer.
func (r *reopenedFile) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Write(b)
}

// reopen goes on with the file that has the name now. After an error the old
// one is written to.
func (r *reopenedFile) reopen() error {
	f, err := openLog(r.path)
	if err != nil {
		return fmt.Errorf("open access log: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.file
	r.file = f
	return old.Close()
}

// Close closes the file.
func (r *reopenedFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}

// statusFilter returns which answers the access log tells of, nil for all.
func (c *httpConfig) statusFilter() (func(status int) bool, error) {
	if len(c.AccessLogStatusFilters) == 0 {
		return nil, nil
	}
	var patterns []string
	for _, text := range c.AccessLogStatusFilters {
		p := strings.ToLower(text)
		if len(p) != 3 || p[0] < '1' || p[0] > '5' || strings.Trim(p[1:], "0123456789x") != "" {
			return nil, fmt.Errorf("http.access-log-status-filters has %q, which is no status such as 404 or 5xx", text)
		}
		patterns = append(patterns, p)
	}
	return func(status int) bool {
		s := strconv.Itoa(status)
		for _, p := range patterns {
			if len(s) == 3 && s[0] == p[0] && (p[1] == 'x' || s[1] == p[1]) && (p[2] == 'x' || s[2] == p[2]) {
				return true
			}
		}
		return false
	}, nil
}

// header returns what goes with every answer.
func (c *httpConfig) header() (http.Header, error) {
	h := http.Header{}
	for name, value := range c.Headers {
		notToken := func(r rune) bool {
			return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '_'
		}
		if name == "" || strings.ContainsFunc(name, notToken) || strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r == 0x7f }) {
			return nil, fmt.Errorf("http.headers has %q: %q, which is no header", name, value)
		}
		h.Set(name, value)
	}
	return h, nil
}
