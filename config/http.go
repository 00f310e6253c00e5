package config

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// StatusFilter returns whether the access log has answers of a status, nil for
// all.
func (c *HTTP) StatusFilter() (func(status int) bool, error) {
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

// Header returns the headers of every answer.
func (c *HTTP) Header() (http.Header, error) {
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
