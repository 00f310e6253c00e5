package httpapi

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"tsdbd/query"
	"tsdbd/query/result"
)

// The headers with the messages and the errors of statements, for formats that have
// no place for them. A message says, for example, that points are missing.
const (
	warningHeader = "X-Influxdb-Warning"
	errorHeader   = "X-Influxdb-Error"
)

// maxWarningBytes bounds the texts of all these headers: proxies limit the header of
// an answer to a few kilobytes.
const maxWarningBytes = 2 << 10

// warnings puts messages and errors of statements into the header of an answer, or
// into its trailer when the header has been sent.
type warnings struct {
	header http.Header
	bytes  int
	cut    bool // maxWarningBytes is reached
}

// add adds the messages and the error of a result. late says that the header has
// been sent.
func (s *warnings) add(res *result.Result, late bool) {
	if res.Err != nil && res.Err != query.ErrNotExecuted {
		s.tell(errorHeader, res.Err.Error(), late)
	}
	for _, m := range res.Messages {
		if m.Level == result.LevelInfo {
			continue // the answer lacks nothing
		}
		s.tell(warningHeader, m.Text, late)
	}
}

func (s *warnings) tell(name, text string, late bool) {
	if s.cut {
		return
	}
	text = headerText(text)
	if s.bytes += len(text); s.bytes > maxWarningBytes {
		name, text, s.cut = warningHeader, "and more, which answers in JSON have", true
	}
	if late {
		name = http.TrailerPrefix + name
	}
	s.header.Add(name, text)
}

// headerText returns a message that fits in a header: one printable line, cut
// between characters at maxErrorHeader.
func headerText(message string) string {
	if len(message) > maxErrorHeader {
		cut := maxErrorHeader
		for cut > 0 && !utf8.RuneStart(message[cut]) {
			cut--
		}
		message = message[:cut]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == utf8.RuneError {
			return ' '
		}
		return r
	}, message)
}
