package server

import (
	"fmt"
	"os"
	"sync"
)

// reopenedFile is a file that can be reopened by its name: a program that rotates
// logs renames the file and sends SIGHUP.
type reopenedFile struct {
	path string
	mu   sync.Mutex
	file *os.File
}

func openLog(path string) (*os.File, error) {
	return os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
}

// openReopened opens a file to append to.
func openReopened(path string) (*reopenedFile, error) {
	f, err := openLog(path)
	if err != nil {
		return nil, fmt.Errorf("open access log: %w", err)
	}
	return &reopenedFile{path: path, file: f}, nil
}

// Write implements io.Writer.
func (r *reopenedFile) Write(b []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Write(b)
}

// reopen continues with the file that has the name now. After an error it
// continues with the old file.
func (r *reopenedFile) reopen() error {
	f, err := openLog(r.path)
	if err != nil {
		return fmt.Errorf("open access log: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	old := r.file
	r.file = f
	return old.Close()
}

// Close closes the file.
func (r *reopenedFile) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.file.Close()
}
