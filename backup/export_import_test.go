package backup

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"tsdbd/exchange"
	"tsdbd/meta"
	"tsdbd/transfer/mover"
	sink "tsdbd/transfer/sink/server"
	source "tsdbd/transfer/source/lines"
)

// TestExportImport: an import of an export gives the same points, and an export
// of those the same lines.
func TestExportImport(t *testing.T) {
	from, to := newServer(t, HandlerOptions{}), newServer(t, HandlerOptions{})
	from.someData(t)
	to.apply(t, meta.CreateDatabase{Name: "d"})
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = writeLines(to.Store, r.URL.Query().Get("db"), r.URL.Query().Get("rp"), string(body))
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		w.WriteHeader(http.StatusNoContent)
	}))
	defer web.Close()
	f := exchange.Filter{Database: "d", RetentionPolicy: "autogen"}
	var lines bytes.Buffer
	n, err := exchange.Export(context.Background(), from, &lines, exchange.ExportOptions{Filter: f, LinesOnly: true, Gzip: true})
	if err != nil || n < 700 {
		t.Fatal(n, err)
	}
	part := source.Part("lines", &lines, func(r *bufio.Reader, to mover.Lines) error { return source.Protocol(r, "d", "", to) })
	stats, err := mover.Run(t.Context(), &mover.List{Items: []*mover.Part{part}}, sink.New(&exchange.Client{URL: web.URL}, sink.Options{}), mover.Options{})
	if err != nil || stats.Written != n || stats.Refused != 0 {
		t.Fatalf("%+v of %d points: %v", stats, n, err)
	}
	same(t, "imported", dump(t, to, f), dump(t, from, f))
}
