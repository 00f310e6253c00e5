//go:build !linux && !freebsd

package vfs

import "os"

// syncData is Sync: on macOS F_FULLFSYNC, which makes the drive empty its cache,
// or fsync on file systems that do not know it; on Windows FlushFileBuffers.
func syncData(f *os.File) error { return f.Sync() }
