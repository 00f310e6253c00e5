package transfer

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/exchange"
)

// silent is a server that takes requests and answers none.
type silent struct{}

// RoundTrip implements http.RoundTripper.
func (silent) RoundTrip(r *http.Request) (*http.Response, error) {
	<-r.Context().Done()
	return nil, r.Context().Err()
}

// TestImportSilent: a server that takes lines and does not answer does not hold an import
// for ever. The error is that of a server that is away.
func TestImportSilent(t *testing.T) {
	for _, series := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			began := time.Now()
			c := &exchange.Client{URL: "http://h", HTTP: &http.Client{Transport: silent{}}}
			line := "m v=1 1\n"
			if series {
				line = `{"metric":{"__name__":"m"},"values":[1],"timestamps":[1]}`
			}
			stats, err := Import(t.Context(), c, strings.NewReader(line), ImportOptions{Database: "d", Series: series})
			var away *url.Error
			if !errors.Is(err, errUnanswered) || !errors.As(err, &away) || stats.Written != 0 || time.Since(began) != sendTime {
				t.Errorf("%v after %s, %+v", err, time.Since(began), stats)
			}
		})
	}
}
