package admission

import "testing"

func TestRedactURLs(t *testing.T) {
	f := func(text, want string) {
		t.Helper()
		if got := RedactURLs(text); got != want {
			t.Errorf("%s is shown as %s, want %s", text, got, want)
		}
	}
	f(`SELECT a::float, b FROM m WHERE c = 'x@y' AND d = 'http://h:80/'`, `SELECT a::float, b FROM m WHERE c = 'x@y' AND d = 'http://h:80/'`)
	f(`ALL 'http://ann:pw@h1:80', 'https://bo:p:w@x@h2:80', 'udp://h3:9'`, `ALL 'http://ann:[REDACTED]@h1:80', 'https://bo:[REDACTED]@h2:80', 'udp://h3:9'`)
	f(`ALL 'http://:p/w@h'`, `ALL 'http://:[REDACTED]@h'`)
}
