package main

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

// profileTime is how long a CPU profile of a server is taken: the load with
// what is flushed and merged behind it, or its queries.
const profileTime = 15 * time.Second

// profile takes a CPU profile of a tsdbd from now on, if that is asked for, into
// a file of the directory for it. The function it returns waits for its end.
func (c *comparison) profile(ctx context.Context, s *process, part string) func() error {
	if c.profiles == "" || s.name != "tsdbd" {
		return func() error { return nil }
	}
	done := make(chan error, 1)
	go func() {
		client := newClient(s.url, "", 1)
		defer client.close()
		b, err := client.do(ctx, http.MethodGet, "/debug/pprof/profile", url.Values{"seconds": {strconv.Itoa(int(profileTime.Seconds()))}}, nil)
		if err == nil {
			err = os.WriteFile(filepath.Join(c.profiles, part+".pprof"), b, 0o644)
		}
		if err != nil {
			err = fmt.Errorf("profile of %s: %w", part, err)
		}
		done <- err
	}()
	return func() error { return <-done }
}
