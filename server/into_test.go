package server

import (
	"strings"
	"testing"

	"tsdbd/meta"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
)

// TestIntoStoresWhatAWriteStores: SELECT INTO refuses names that no write may
// store, and top and bottom give a series the tag that it is grouped by once.
func TestIntoStoresWhatAWriteStores(t *testing.T) {
	st := openStore(t, t.TempDir())
	defer st.Close()
	if err := st.Apply(t.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
		t.Fatal(err)
	}
	writeLines(t, st, "m,h=h0,r=a v=1 1\nm,h=h0,r=b v=3 2\nm,h=h1,r=a v=2 3\nm,h=h1,r=b v=4 4\n")
	e := query.New(query.Options{Storage: st, Admin: engine{Store: st}, Into: engine{Store: st}.writeInto})
	run := func(text string) string {
		t.Helper()
		q, err := syntax.Parse(text, nil)
		if err != nil {
			t.Fatal(err)
		}
		var out []string
		err = e.Execute(t.Context(), q, query.ExecuteOptions{Database: "db"}, func(r *result.Result) error {
			if r.Err != nil {
				out = append(out, r.Err.Error())
			}
			for _, s := range r.Series {
				out = append(out, s.Values[len(s.Values)-1].Strings...)
			}
			return nil
		})
		if err != nil {
			out = append(out, err.Error())
		}
		return strings.Join(out, "\n")
	}
	written := func(text string, want int64) {
		t.Helper()
		if got := ask(t, e, text)["result"]; got != want {
			t.Errorf("%s: %d written, want %d", text, got, want)
		}
	}
	written("SELECT top(v, h, 2) INTO x FROM m GROUP BY h", 2)
	if got := run("SHOW SERIES FROM x"); got != "x,h=h0\nx,h=h1" {
		t.Errorf("series of top: %s", got)
	}
	written("SELECT bottom(v, r, 2) INTO y FROM m GROUP BY h", 4)
	if got := run("SHOW SERIES FROM y"); got != "y,h=h0,r=a\ny,h=h0,r=b\ny,h=h1,r=a\ny,h=h1,r=b" {
		t.Errorf("series of bottom: %s", got)
	}
	long := strings.Repeat("k", 70_000)
	tail := " dropped=4 for database: db for retention policy: autogen"
	for text, want := range map[string]string{
		`SELECT v INTO "a\nb" FROM m`:              `partial write: measurement "a\nb" contains a newline` + tail,
		`SELECT v INTO "x\\" FROM m`:               `partial write: measurement "x\\" ends in a backslash` + tail,
		`SELECT v INTO "#x" FROM m`:                `partial write: measurement "#x" begins as a comment` + tail,
		`SELECT v AS "a\nb" INTO bad FROM m`:       `partial write: field "a\nb" of "bad" contains a newline` + tail,
		`SELECT v AS ` + long + ` INTO bad FROM m`: `partial write: max key length exceeded: 70007 > 65535` + tail,
	} {
		if got := run(text); got != want {
			t.Errorf("%.60s: %s\nwant %s", text, got, want)
		}
	}
	if got := run("SHOW MEASUREMENTS"); got != "m\nx\ny" {
		t.Errorf("measurements: %s", got)
	}
	// A row that is refused keeps no other row from being written.
	writeLines(t, st, "l,r=a v=1 1\nl,r=bbb v=2 2\n")
	name := strings.Repeat("n", 65535-4-len("bottom")-len(",r=a"))
	if got := run("SELECT bottom(v, r, 2) INTO " + name + " FROM l"); got != "partial write: max key length exceeded: 65537 > 65535 dropped=1 for database: db for retention policy: autogen" {
		t.Error(got)
	}
	if got := run("SHOW SERIES FROM " + name); got != name+",r=a" {
		t.Errorf("%.200s", got)
	}
}
