package apptest

import (
	"encoding/json"
	"flag"
	"os"
	"strings"
	"testing"

	"tsdbd/internal/testkit/golden"
)

var goldenOurs = flag.String("golden.ours", "", "append what differs to this file, as differences")

// TestGolden replays every recorded theme against the real process.
func TestGolden(t *testing.T) {
	t.Parallel()
	ReplayGolden(t, Start(t), func(c *golden.Case, d *golden.Difference) { note(t, d, c) })
}

// note appends our answer to a case to the file asked for.
func note(t *testing.T, d *golden.Difference, c *golden.Case) {
	if *goldenOurs == "" {
		return
	}
	d.Theme, d.ID, _ = strings.Cut(c.Name(), "/")
	f, err := os.OpenFile(*goldenOurs, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	text, err := json.Marshal(d)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write(append(text, '\n')); err != nil {
		t.Fatal(err)
	}
}
