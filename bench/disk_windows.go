package main

import "io/fs"

// allocated returns what a file takes on the disk, as far as its size tells.
func allocated(info fs.FileInfo) int64 { return info.Size() }
