package influxhttp

import (
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/exchange"
	"tsdbd/model"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

// silent is a server that answers path and is silent otherwise.
type silent struct{ path string }

type readerFunc func(p []byte) (int, error)

// Read implements io.Reader.
func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// RoundTrip implements http.RoundTripper.
func (s silent) RoundTrip(r *http.Request) (*http.Response, error) {
	if s.path == "half of "+r.URL.Path {
		begun := io.MultiReader(strings.NewReader(`{"results":[{"series":[`), readerFunc(func([]byte) (int, error) {
			<-r.Context().Done()
			return 0, r.Context().Err()
		}))
		return &http.Response{StatusCode: http.StatusOK, Header: http.Header{}, Body: io.NopCloser(begun), Request: r}, nil
	}
	if !strings.HasSuffix(s.path, r.URL.Path) && r.URL.Path != "/ping" || s.path == "" {
		<-r.Context().Done()
		return nil, r.Context().Err()
	}
	return &http.Response{StatusCode: http.StatusNoContent, Header: http.Header{}, Body: http.NoBody, Request: r}, nil
}

// TestSilent: a server that takes a request and says nothing does not hold an import for ever.
func TestSilent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		if _, err := Connect(t.Context(), &exchange.Client{URL: "http://h", HTTP: &http.Client{Transport: silent{}}}); err == nil || !strings.Contains(err.Error(), "has not answered for 30s") {
			t.Errorf("a silent server: %v", err)
		}
		if took := time.Since(began); took != pingTime {
			t.Errorf("it was waited for for %s", took)
		}
		for _, path := range []string{"/ping", "half of /query"} {
			s, err := Connect(t.Context(), &exchange.Client{URL: "http://h", HTTP: &http.Client{Transport: silent{path}}})
			if err != nil {
				t.Fatal(err)
			}
			began = time.Now()
			if _, err := s.ask(t.Context(), place{}, "SHOW DATABASES"); !errors.Is(err, errStalled) || time.Since(began) != stallTime {
				t.Errorf("%s: %v after %s", path, err, time.Since(began))
			}
			began = time.Now()
			if err := s.buckets(t.Context(), &Catalog{}, &exchange.Filter{}); !errors.Is(err, errStalled) || time.Since(began) != stallTime {
				t.Errorf("%s: the buckets: %v after %s", path, err, time.Since(began))
			}
			told := ""
			from := New(s, s.client, &Catalog{}, Options{Note: func(text string) { told += text + "\n" }})
			of := newStretch(&measurement{place: place{"d", "p"}, name: "m", fields: []field{{key: "v", cast: "field"}}})
			part := from.part(of, model.TimeRange{Min: 1, Max: 3 * shortest}, 0, 1)
			_, err = mover.Run(t.Context(), &mover.List{Items: []*mover.Part{part}}, server.New(s.client, server.Options{}), mover.Options{})
			if !errors.Is(err, errStalled) || strings.Count(told, "asking for half") != 1 {
				t.Errorf("%s: the rows: %v, told %q", path, err, told)
			}
		}
	})
}

// TestPatience: a request that fails is tried for some time from its first error on, also if
// it had gone well for longer.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := New(&Server{}, &exchange.Client{}, &Catalog{}, Options{Patience: time.Minute})
		w, broken := p.newWait(), errors.New("broken")
		time.Sleep(time.Hour)
		began, attempts := time.Now(), 0
		for w.pause(t.Context(), broken) == nil {
			attempts++
		}
		if took := time.Since(began); attempts < 5 || took < 20*time.Second || took > time.Minute {
			t.Errorf("%d attempts in %s", attempts, took)
		}
	})
}
