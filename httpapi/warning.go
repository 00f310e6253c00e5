package httpapi

import (
	"net/http"

	"tsdbd/query"
	"tsdbd/query/result"
)

// The headers that tell what a format has no place for: messages of a statement,
// such as that points are missing, and why a statement failed.
const (
	warningHeader = "X-Influxdb-Warning"
	errorHeader   = "X-Influxdb-Error"
)

// maxWarningBytes bounds all of them: proxies give the header of an answer a few
// kilobytes.
const maxWarningBytes = 2 << 10

// warnings puts what statements tell into the header of an answer, or, once that
// has gone, into its trailer. Clients that do not know it pass it by.
type warnings struct {
	header http.Header
	bytes  int
	cut    bool // there is no room for more
}

// add tells of a result; late says that the header has gone.
func (s *warnings) add(res *result.Result, late bool) {
	if res.Err != nil && res.Err != query.ErrNotExecuted {
		s.tell(errorHeader, res.Err.Error(), late)
	}
	for _, m := range res.Messages {
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
