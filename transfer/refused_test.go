package transfer

import (
	"bufio"
	"io"
	"path/filepath"
	"strings"
	"testing"

	"tsdbd/transfer/mover"
)

// TestRefusedTooLong: lines that are too long, with a quote that is open where they are
// cut, are told apart, and do not hide the lines behind them from an import that goes on.
func TestRefusedTooLong(t *testing.T) {
	name := filepath.Join(t.TempDir(), "refused")
	long := `m s="` + strings.Repeat("x", maxLine)
	quoted := "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:p\n# a reason: \"" + long + long + "\"\n"
	for _, has := range []int64{0, 4} {
		r, err := mover.OpenRefused(name, true)
		if err != nil {
			t.Fatal(err)
		}
		if r.Lines(0) != has {
			t.Errorf("%d lines are there, want %d", r.Lines(0), has)
		}
		im := &importer{opt: ImportOptions{Failed: r}, db: "d", rp: "p"}
		if err := im.read(bufio.NewReader(strings.NewReader(long + "\" 1\n" + long + "\" 2\nm s=\"open"))); err != nil {
			t.Error(err)
		}
		if _, err := io.WriteString(r, quoted); err != nil {
			t.Error(err)
		}
		if im.stats.Failed != 3 || r.Lines(0) != 4 {
			t.Errorf("%d lines were refused, want 3, and %d are there, want 4", im.stats.Failed, r.Lines(0))
		}
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	}
}
