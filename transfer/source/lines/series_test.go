package lines

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"tsdbd/exchange"
	"tsdbd/transfer/mover"
	"tsdbd/transfer/sink/server"
)

// TestImportSeries sends VictoriaMetrics' lines in batches, finds the lines that a server
// refuses, and cuts a line that is longer than a batch.
func TestImportSeries(t *testing.T) {
	var mu sync.Mutex
	samples := map[string]int{}
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		if r.URL.Path != "/api/v1/import" || r.URL.RawQuery != "db=d&rp=p" {
			t.Errorf("asked for %s", r.URL)
		}
		bad, reason, number := 0, "", 0
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		for line := range bytes.Lines(body) {
			number++
			var s struct {
				Metric             map[string]string
				Values, Timestamps []any
			}
			if err := json.Unmarshal(line, &s); err != nil {
				bad++
				if reason == "" {
					reason = fmt.Sprintf("line %d: %v", number, err)
				}
				continue
			}
			if len(s.Values) != len(s.Timestamps) || len(s.Values) > seriesSamples {
				t.Errorf("%d values and %d timestamps", len(s.Values), len(s.Timestamps))
			}
			for i := range s.Values {
				samples[fmt.Sprint(s.Metric, s.Timestamps[i], s.Values[i])] = number
			}
		}
		if bad > 0 {
			w.Header().Set("X-Tsdbd-Dropped", fmt.Sprint(bad))
			w.WriteHeader(http.StatusBadRequest)
			fmt.Fprintf(w, `{"error":"partial write: %s dropped=0 for database: d"}`, reason)
		}
	}))
	defer web.Close()
	var text strings.Builder
	want := 0
	for i := range 50 {
		fmt.Fprintf(&text, `{"metric":{"__name__":"m","i":"%d"},"values":[%d,null],"timestamps":[1,2]}`+"\n", i, i)
		want += 2
		if i%20 == 7 {
			text.WriteString("bad\r\n\n")
		}
	}
	const long = 25*seriesSamples + 5 // more than wholeLine
	var values, times []string
	for i := range long {
		values, times = append(values, fmt.Sprint(i)), append(times, fmt.Sprint(1000+i))
	}
	values[3] = `"Infinity"`
	fmt.Fprintf(&text, `{"metric":{"__name__":"long","a":"x,]"},"values":[%s],"timestamps":[%s]}`+"\n", strings.Join(values, ","), strings.Join(times, ", "))
	fmt.Fprintf(&text, `{"metric":{},"values":[%s],"timestamps":[1]}`, strings.Join(values, ","))
	want += long
	var zipped bytes.Buffer
	z := gzip.NewWriter(&zipped)
	_, err := io.WriteString(z, text.String())
	if err != nil || z.Close() != nil {
		t.Fatal(err)
	}
	for _, workers := range []int{1, 3} {
		clear(samples)
		part := Part("f", bytes.NewReader(zipped.Bytes()), func(r *bufio.Reader, to mover.Lines) error { return Series(r, "d", "p", to) })
		part.Series = true
		stats, failed, err := moved(t, &exchange.Client{URL: web.URL}, part, server.Options{Workers: workers, BatchBytes: 1000})
		if err != nil || stats.Refused != 4 || stats.Written != 50+long/seriesSamples+1 {
			t.Errorf("%+v, %v", stats, err)
		}
		if len(samples) != want {
			t.Errorf("%d samples of %d", len(samples), want)
		}
		if n := strings.Count(failed, "bad\n"); n != 1 || strings.Contains(failed, "#") { // each once
			t.Errorf("failed lines %.300q", failed)
		}
		if all := fmt.Sprint(stats.Reasons); !strings.Contains(all, "f:9: invalid character 'b'") || !strings.Contains(all, fmt.Sprintf("f:58: %d values and 1 timestamps", long)) {
			t.Errorf("errors %s", all)
		}
	}
}
