package downsample

import (
	"strconv"
	"strings"
	"testing"
	"time"

	"tsdbd/internal/testkit/script"
	"tsdbd/query/downsample"
)

// TestScripts runs the scripts of testdata. They show what downsamples do, for readers.
//
// The commands:
//
//	at TIME        sets the clock
//	write POLICY   writes the lines that follow, times in seconds
//	do             runs the statements that follow
//	ask            runs the statement that follows and prints its answer
//	query          the same, of a client: from downsamples if need be, with its messages
//	use WHEN       sets query.use-downsamples, with a restart
//	settle         computes all windows that have ended; prints how many rows were written
//	expire POLICY  drops the first shard group of a policy as expired
//	restart        kills the server and starts it again
//
// The database is d. Its policies raw and hours have shards of a day, raw is the default,
// and the clock begins at 1970-01-01.
func TestScripts(t *testing.T) {
	script.Run(t, "testdata/*.txt", func(t *testing.T) func(script.Command) []string {
		h := newHarness(t)
		h.must("CREATE DATABASE d WITH SHARD DURATION 1d NAME raw; CREATE RETENTION POLICY hours ON d DURATION INF REPLICATION 1 SHARD DURATION 1d")
		return h.run
	})
}

func (h *harness) run(c script.Command) []string {
	text := strings.Join(c.Input, "\n")
	var err error
	switch c.Name {
	case "at":
		h.now, err = time.Parse("2006-01-02T15:04", c.Args[0])
	case "write":
		err = h.load(c.Args[0], text)
	case "do", "ask":
		return lines(h.ask(text))
	case "query":
		h.rewrite, h.notes = true, nil
		answer := lines(h.ask(text))
		h.rewrite = false
		return append(h.notes, answer...)
	case "use":
		h.use = downsample.Use(c.Args[0])
		h.crash(1)
	case "settle":
		before := h.written
		if err = h.settle(); err == nil {
			return []string{strconv.Itoa(h.written-before) + " rows written"}
		}
	case "expire":
		err = h.expire(c.Args[0])
	case "restart":
		h.crash(1)
	default:
		h.t.Fatalf("unknown command %q", c.Name)
	}
	if err != nil {
		return []string{err.Error()}
	}
	return nil
}

// lines returns the lines of an answer, none of an empty one.
func lines(answer string) []string {
	if answer = strings.TrimRight(answer, "\n"); answer == "" {
		return nil
	}
	return strings.Split(answer, "\n")
}
