package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"tsdbd/internal/vfs/vfstest"
	"tsdbd/lineproto"
	"tsdbd/model/point"
)

// TestWriteOfOneWhoIsGone: a write that waited until its client was gone stores nothing. The
// client may have repeated it, and written newer points since.
func TestWriteOfOneWhoIsGone(t *testing.T) {
	fs := vfstest.New()
	s := openTest(t, fs, testOptions(fs))
	s.create("db")
	table, err := s.Table("db")
	if err != nil {
		t.Fatal(err)
	}
	var p lineproto.Parser
	var b point.Batch
	if _, err := p.Parse(&b, table, []byte("m f=1 1"), lineproto.Options{}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	s.gate.Lock() // as a change of the catalog does
	result := make(chan error, 1)
	go func() { result <- s.Write(ctx, "db", "autogen", &b) }()
	for s.memory.reserved.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	cancel()
	s.gate.Unlock()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("the write was answered: %v", err)
	}
	if err := s.Write(context.Background(), "db", "autogen", &b); err != nil {
		t.Error(err)
	}
}
