// Package loss knows what the log of a store has lost to damage, and which losses nobody has
// accepted. What a shard has lost, its quarantine says.
package loss

import (
	"log/slog"
	"path"
	"slices"
	"sync/atomic"

	"tsdbd/internal/vfs"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/wal"
)

// Log is the list of the damaged spans of a log that are in its quarantine. It is empty
// until Read. It is safe for concurrent use.
type Log struct {
	FS     vfs.FS
	Dir    string // of the log
	Logger *slog.Logger

	list atomic.Pointer[[]scan.Loss]
}

// List returns what Read has found. The caller owns it.
func (l *Log) List() []scan.Loss {
	if list := l.list.Load(); list != nil {
		return slices.Clone(*list)
	}
	return nil
}

// Check reads the quarantine again if something was in it: an operator clears a loss by
// removing the files there.
func (l *Log) Check() {
	if len(l.List()) > 0 {
		l.Read()
	}
}

// Read reads the quarantine.
func (l *Log) Read() {
	names, err := wal.Lost(l.FS, l.Dir)
	if err != nil {
		l.Logger.Warn("quarantine of the log not read", "err", err)
		return
	}
	var list []scan.Loss
	for _, name := range names {
		list = append(list, scan.Loss{Range: model.AllTime, Path: name, ID: path.Base(name)})
	}
	l.list.Store(&list)
}
