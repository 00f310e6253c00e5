package main

import (
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"sync"

	"tsdbd/internal/vfs"
)

// nullWAL is no database: it acknowledges a body once it lies in a file, and
// knows nothing about it. It is the limit of any server that does as much with
// net/http.
type nullWAL struct {
	file  vfs.File
	mu    sync.Mutex
	group *group
	wake  chan struct{}
}

// group is the bodies of one append.
type group struct {
	data []byte
	done chan struct{}
	err  error // once done
}

func newGroup(data []byte) *group { return &group{data: data, done: make(chan struct{})} }

func (n *nullWAL) write(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err == nil {
		n.mu.Lock()
		g := n.group
		g.data = append(g.data, body...)
		n.mu.Unlock()
		select {
		case n.wake <- struct{}{}:
		default:
		}
		<-g.done
		err = g.err
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

// commit appends groups until ctx ends.
func (n *nullWAL) commit(ctx context.Context) {
	var spare []byte
	for {
		select {
		case <-ctx.Done():
			return
		case <-n.wake:
		}
		n.mu.Lock()
		g := n.group
		n.group = newGroup(spare[:0])
		n.mu.Unlock()
		if len(g.data) > 0 {
			_, g.err = n.file.Write(g.data)
			g.err = errors.Join(g.err, n.file.SyncData())
		}
		spare = g.data
		close(g.done)
	}
}

// serveNullWAL serves until ctx ends.
func serveNullWAL(ctx context.Context, address, dir string) (err error) {
	f, err := vfs.OS.Create(filepath.Join(dir, "log"))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	n := &nullWAL{file: f, group: newGroup(nil), wake: make(chan struct{}, 1)}
	mux := http.NewServeMux()
	mux.HandleFunc("/write", n.write)
	mux.HandleFunc("/ping", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/query", func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"results":[{"statement_id":0}]}`) // CREATE DATABASE
	})
	server := &http.Server{Addr: address, Handler: mux}
	var wg sync.WaitGroup
	defer wg.Wait()
	committed, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	wg.Go(func() { n.commit(committed) })
	wg.Go(func() {
		<-ctx.Done()
		_ = server.Close()
	})
	if err := server.ListenAndServe(); !errors.Is(err, http.ErrServerClosed) {
		return err // ctx has not ended: the process does
	}
	return nil
}
