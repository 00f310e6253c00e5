package backup

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

var errNoRoom = errors.New("no room")

type fullDisk struct{}

func (fullDisk) Write([]byte) (int, error) { return 0, errNoRoom }

// TestImportKeepsRefusedLines: lines that the import itself refuses are kept
// for later too, and are not lost in silence when that fails.
func TestImportKeepsRefusedLines(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	defer server.Close()
	const lines = "m v=\"open\nm v=1 1\n"
	var kept strings.Builder
	opt := ImportOptions{Database: "d", RetentionPolicy: "r", Failed: &kept}
	stats, err := Import(context.Background(), &Client{URL: server.URL}, strings.NewReader(lines), opt)
	const want = "# CONTEXT-DATABASE:d\n# CONTEXT-RETENTION-POLICY:r\nm v=\"open\n"
	if err != nil || stats.Failed != 1 || stats.Written != 1 || kept.String() != want {
		t.Errorf("%+v %v, kept %q", stats, err, kept.String())
	}
	opt.Failed = fullDisk{}
	if _, err := Import(context.Background(), &Client{URL: server.URL}, strings.NewReader(lines), opt); !errors.Is(err, errNoRoom) {
		t.Errorf("refused lines that cannot be kept: %v", err)
	}
}
