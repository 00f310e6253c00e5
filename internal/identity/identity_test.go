package identity

import (
	"encoding/json"
	"errors"
	"fmt"
	"testing"
)

func TestLineage(t *testing.T) {
	a, b := NewLineage(), NewLineage()
	if a == b || a == (Lineage{}) {
		t.Fatalf("lineages %s and %s are not random", a, b)
	}
	text, err := json.Marshal(a)
	if err != nil || string(text) != `"`+a.String()+`"` {
		t.Fatalf("marshalled as %s, %v", text, err)
	}
	var back Lineage
	if err := json.Unmarshal(text, &back); err != nil || back != a {
		t.Fatalf("%s came back as %s, %v", a, back, err)
	}
	for _, bad := range []string{"", "00", a.String() + "00", "x" + a.String()[1:]} {
		if err := back.UnmarshalText([]byte(bad)); err == nil {
			t.Errorf("%q was read as a lineage", bad)
		}
	}
}

func TestForeign(t *testing.T) {
	err := fmt.Errorf("open: %w", Foreignf("d/f", "belongs to database %d", 2))
	if !errors.Is(err, ErrForeign) || err.Error() != "open: d/f: belongs to database 2" {
		t.Errorf("%v", err)
	}
	if errors.Is(errors.New("other"), ErrForeign) {
		t.Error("another error is foreign")
	}
}
