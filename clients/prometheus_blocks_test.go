package clients

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/golang/snappy"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/prompb"

	"tsdbd/internal/testkit/apptest"
)

// TestPrometheusBlocks moves the data of a real Prometheus as
// docs/migrating-from-prometheus.md says: a snapshot, tsdbd import prometheus. Then both
// must have the same samples, to the last bit, with the staleness markers.
func TestPrometheusBlocks(t *testing.T) {
	s := newSuite(t, "move from Prometheus")
	bin := s.need("prometheus", "apt-get install prometheus")
	old := prometheusAt(t, bin, "", apptest.FreeAddress(t), "--web.enable-admin-api", "--web.enable-remote-write-receiver", "--enable-feature=native-histograms")
	const series, samples = 500, 300 // of less than an hour: older ones are refused
	end := time.Now().Truncate(time.Second)
	begin := end.Add(-samples * 10 * time.Second)
	for i := range series {
		one := prompb.TimeSeries{Labels: []prompb.Label{{Name: "__name__", Value: fmt.Sprintf("metric_%d", i%50)}, {Name: "i", Value: fmt.Sprintf("a b,%d", i)}}}
		for k := range samples {
			v := float64(i*k) / 7
			switch (i + k) % 97 {
			case 0:
				v = math.Float64frombits(value.StaleNaN)
			case 1:
				v = math.Inf(i%2*2 - 1)
			case 2:
				v = math.NaN()
			}
			one.Samples = append(one.Samples, prompb.Sample{Timestamp: begin.UnixMilli() + int64(k)*10_000, Value: v})
		}
		raw, err := (&prompb.WriteRequest{Timeseries: []prompb.TimeSeries{one}}).Marshal()
		s.must(err)
		resp, err := http.Post(old+"/api/v1/write", "application/x-protobuf", bytes.NewReader(snappy.Encode(nil, raw)))
		s.must(err)
		resp.Body.Close()
		if resp.StatusCode != http.StatusNoContent {
			t.Fatal(resp.Status)
		}
	}
	data := func(method, route string) (data map[string]string) {
		t.Helper()
		req, err := http.NewRequest(method, old+route, nil)
		s.must(err)
		resp, err := http.DefaultClient.Do(req)
		s.must(err)
		defer resp.Body.Close()
		answer := struct{ Data *map[string]string }{&data}
		s.must(json.NewDecoder(resp.Body).Decode(&answer))
		return data
	}
	snapshot := data(http.MethodPost, "/api/v1/admin/tsdb/snapshot")["name"]
	path := filepath.Join(data(http.MethodGet, "/api/v1/status/flags")["storage.tsdb.path"], "snapshots", snapshot)

	server := apptest.Start(t)
	journal := filepath.Join(t.TempDir(), "journal")
	args := []string{"import", "prometheus", "-host", server.URL, "-db", "moved", "-journal", journal, path}
	killed := exec.Command(apptest.Binary(t), args...)
	s.must(killed.Start())
	time.Sleep(150 * time.Millisecond)
	_ = killed.Process.Kill()
	_ = killed.Wait()
	out, errs, err := command(t, "", nil, "", append([]string{apptest.Binary(t)}, args...)...)
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out, errs)
	}
	s.check("import after a kill", err)
	t.Log(out)
	_, err = os.Stat(journal)
	s.equal("the journal is gone", os.IsNotExist(err), true)

	want, err := remoteRead(old+"/api/v1/read", begin, end)
	s.must(err)
	s.equal("series", len(want), series)
	got, err := remoteRead(server.URL+"/api/v1/prom/read?db=moved", begin, end)
	s.must(err)
	s.check("the same samples", sameSamples(got, want))

	out, errs, err = command(t, "", nil, "", apptest.Binary(t), "import", "prometheus", "-host", server.URL, "-db", "read", "-start", begin.UTC().Format(time.RFC3339), old)
	if err != nil {
		err = fmt.Errorf("%w\n%s%s", err, out, errs)
	}
	s.check("import by remote read", err)
	got, err = remoteRead(server.URL+"/api/v1/prom/read?db=read", begin, end)
	s.must(err)
	s.check("the same samples by remote read", sameSamples(got, want))
}
