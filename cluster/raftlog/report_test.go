package raftlog

import (
	"encoding/json"
	"strings"
	"testing"
)

func TestReport(t *testing.T) {
	m := goldenLog(t)
	r, err := Inspect(m, testDir, true)
	must(t, err)
	var out strings.Builder
	must(t, r.WriteText(&out))
	for _, want := range []string{
		"entries 7-10, base 6 of term 2 at sequence 99", "n0-3 a0 Voter", "2-4", "closed", "7 term 2 LogNoop: 0 bytes",
		"9 term 3 LogCommand: 5 bytes, appended 1970-01-01T00:00:01.000000005Z", "truncated to 9", "10 term 4 LogCommand: 560 bytes",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
	must(t, m.Flip(segmentPath(testDir, 1), 600, 1))
	if r, err = Inspect(m, testDir, false); err != nil || len(r.Damage) != 1 || len(r.Batches) > 0 {
		t.Errorf("damaged log: %+v, %v", r, err)
	}
	b, err := json.Marshal(r)
	if err != nil || !strings.Contains(string(b), `"offset":`) {
		t.Errorf("%s, %v", b, err)
	}
}
