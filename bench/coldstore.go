package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"time"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/proc"
)

// bucket is an object store in this process that counts what is read of files. The server
// that is measured is another process, so that its CPU time has nothing of the store.
type bucket struct {
	*objecttest.Server
	gets, bytes atomic.Int64 // of objects that are files of shards
}

// The login of a bucket, which takes any.
const bucketKey, bucketSecret = "bench", "bench-secret"

func openBucket() (*bucket, error) {
	s, err := objecttest.Open()
	if err != nil {
		return nil, err
	}
	b := &bucket{Server: s}
	s.Fault(func(_ http.ResponseWriter, r *http.Request) bool {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, ".tsm") {
			b.gets.Add(1)
			b.bytes.Add(rangeLength(r.Header.Get("Range")))
		}
		return false
	})
	return b, nil
}

// rangeLength returns the bytes that a header asks for, 0 if it does not say.
func rangeLength(header string) int64 {
	var from, to int64
	if n, _ := fmt.Sscanf(header, "bytes=%d-%d", &from, &to); n != 2 || to < from {
		return 0
	}
	return to - from + 1
}

// env are the settings of a server whose old shards are in a part of the bucket.
func (b *bucket) env(prefix, cache string) []string {
	return []string{
		"TSDBD_COLD_URL=s3://" + objecttest.Bucket + "/" + prefix, "TSDBD_COLD_ENDPOINT=" + b.URL, "TSDBD_COLD_PATH_STYLE=true",
		"TSDBD_COLD_ACCESS_KEY=" + bucketKey, "TSDBD_COLD_SECRET_KEY=" + bucketSecret, "TSDBD_COLD_AFTER=1h", "TSDBD_COLD_CACHE_SIZE=" + cache,
	}
}

// transfer is what it costs to get objects from a store and do nothing with them.
type transfer struct {
	Bytes int64
	Gets  int
	CPU   time.Duration
	Took  time.Duration
}

// transferRange is how much is asked for at a time, as the server does.
const transferRange = 1 << 20

// measureTransfer has another process get all files below a prefix.
func (b *bucket) measureTransfer(ctx context.Context, prefix string) (t transfer, err error) {
	self, err := os.Executable()
	if err != nil {
		return t, err
	}
	cmd := exec.CommandContext(ctx, self, "cold-transfer", "-url", b.URL, "-data", prefix)
	cmd.Stderr = os.Stderr
	proc.Prepare(cmd)
	out, err := cmd.Output()
	if err == nil {
		err = json.Unmarshal(out, &t)
	}
	if err != nil {
		return t, fmt.Errorf("measure the transfer: %w", err)
	}
	return t, nil
}

// runTransfer gets all files of a store with the server's client, and writes a transfer as
// JSON.
func runTransfer(ctx context.Context, endpoint, prefix string, out io.Writer) error {
	store, err := s3.Open(s3.Options{Endpoint: endpoint, Bucket: objecttest.Bucket, Prefix: prefix, PathStyle: true, AccessKey: bucketKey, SecretKey: bucketSecret})
	if err != nil {
		return err
	}
	infos, err := store.List(ctx, "objects")
	if err != nil {
		return err
	}
	var t transfer
	p := make([]byte, transferRange)
	begin, cpu := time.Now(), proc.CPUTime()
	for _, i := range infos {
		if !strings.HasSuffix(i.Name, ".tsm") {
			continue
		}
		for at := int64(0); at < i.Size; at += transferRange {
			if err := readRange(ctx, store, i.Name, at, p[:min(transferRange, i.Size-at)]); err != nil {
				return err
			}
			t.Gets++
		}
		t.Bytes += i.Size
	}
	t.CPU, t.Took = proc.CPUTime()-cpu, time.Since(begin)
	return json.NewEncoder(out).Encode(t)
}

// readRange fills p with bytes of an object.
func readRange(ctx context.Context, from object.Store, name string, at int64, p []byte) error {
	body, err := from.ReadRange(ctx, name, at, int64(len(p)))
	if err != nil {
		return err
	}
	_, err = io.ReadFull(body, p)
	return errors.Join(err, body.Close())
}
