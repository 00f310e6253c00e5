package layout

import (
	"path"
	"strings"
)

// Place returns the numbers of the database and of the shard whose file it is, 0 for none,
// by its path below a data directory.
func Place(dir, file string) (database uint32, shard uint64) {
	below, ok := strings.CutPrefix(path.Clean(file), path.Clean(dir)+"/")
	if !ok {
		return 0, 0
	}
	names := strings.Split(below, "/")
	d, ok := Number(names[0], DatabasePrefix)
	if !ok {
		return 0, 0
	}
	if len(names) > 1 {
		shard, _ = Number(names[1], ShardPrefix)
	}
	return uint32(d), shard
}
