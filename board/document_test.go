package board

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"tsdbd/meta"
)

func TestCheck(t *testing.T) {
	f := func(document, want string) {
		t.Helper()
		_, err := Check([]byte(document))
		switch {
		case want == "" && err != nil:
			t.Errorf("%.80s: %v", document, err)
		case want != "" && (!errors.Is(err, meta.ErrBoardInvalid) || !strings.Contains(err.Error(), want)):
			t.Errorf("%.80s: %v, want %s", document, err, want)
		}
	}
	nested := func(n int) string {
		return `{"version":1,"panels":[{"options":` + strings.Repeat("[", n) + strings.Repeat("]", n) + `}]}`
	}
	f(`{"version":1,"panels":[]}`, "")
	f(`{"version":1,"range":{"from":"now-1h","to":"now"},"refresh":10,"variables":[{"name":"host"}],"panels":[{"id":1,"kind":"text","text":"<script>"}]}`, "")
	f(nested(maxDepth-3), "")
	f(nested(maxDepth-2), "nested more than 16 deep")
	f(strings.Repeat("[", 100_000), "invalid board") // no deep recursion
	f(``, "unexpected end")
	f(`{"version":1,"panels":[]}{}`, "invalid board")
	f(`[]`, "not a JSON object")
	f(`null`, "not a JSON object")
	f(`{"panels":[]}`, "version is missing")
	f(`{"Version":1,"panels":[]}`, "version is missing")
	f(`{"version":2,"panels":[]}`, "document of a board of version 2 was written by a newer tsdbd; use that version or newer")
	f(`{"version":"1","panels":[]}`, `version is "1"`)
	f(`{"version":1}`, "panels is missing")
	f(`{"version":1,"panels":{}}`, "panels is not a list of objects")
	f(`{"version":1,"panels":null}`, "panels is not a list of objects")
	f(`{"version":1,"panels":[null]}`, "panels is not a list of objects")
	f(`{"version":1,"panels":[],"variables":["a"]}`, "variables is not a list of objects")
	f(`{"version":1,"panels":[],"range":{"from":"now"}}`, "range is not")
	f(`{"version":1,"panels":[],"range":{"from":1,"to":2}}`, "range is not")
	f(`{"version":1,"panels":[],"range":{"from":"a","to":"b","zone":"c"}}`, "range is not")
	f(`{"version":1,"panels":[],"refresh":"10s"}`, "refresh is not a number")
	f(`{"version":1,"panels":[],"refresh":-1}`, "refresh is not a number")
	f(`{"version":1,"panels":[],"title":"x"}`, `member "title" is not known`)
	f("{\"version\":1,\"panels\":[{\"text\":\"\xff\"}]}", "not valid UTF-8")

	large := `{"version":1,"panels":[{"text":"` + strings.Repeat("x", meta.MaxBoardBytes) + `"}]}`
	if _, err := Check([]byte(large)); !errors.Is(err, meta.ErrBoardTooLarge) {
		t.Errorf("a large board: %v", err)
	}
}

// FuzzCheck: what Check accepts the catalog keeps, and Check accepts it again as it is.
func FuzzCheck(f *testing.F) {
	f.Add([]byte(`{"version":1,"panels":[{"text":"<a>"}],"range":{"from":"now-1h","to":"now"}}`))
	f.Add([]byte(`{"version":1,"variables":[],"refresh":1e1,"panels":[[]]}`))
	f.Fuzz(func(t *testing.T, document []byte) {
		content, err := Check(document)
		if err != nil {
			if !errors.Is(err, meta.ErrBoardInvalid) && !errors.Is(err, meta.ErrBoardTooLarge) {
				t.Fatalf("error of no kind: %v", err)
			}
			return
		}
		again, err := Check(content)
		if err != nil || string(again) != string(content) || !json.Valid(content) {
			t.Fatalf("%q becomes %q, then %q, %v", document, content, again, err)
		}
		d, err := meta.Apply(meta.CreateDatabase{Name: "m"}, &meta.Data{})
		if err == nil {
			_, err = meta.Apply(meta.PutBoard{Database: "m", Name: "x", Content: content}, d)
		}
		if err != nil {
			t.Fatalf("%q: %v", content, err)
		}
	})
}
