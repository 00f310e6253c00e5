package tsm1

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// running returns an ErrRunning if another process has files below one of the directories
// open. InfluxDB keeps no lock file. The processes of other users show their files to root
// only.
func running(dirs ...string) error {
	var roots []string
	for _, dir := range dirs {
		if at, err := filepath.EvalSymlinks(dir); dir != "" && err == nil {
			if at, err = filepath.Abs(at); err == nil {
				roots = append(roots, at+string(filepath.Separator))
			}
		}
	}
	processes, _ := os.ReadDir("/proc")
	for _, p := range processes {
		pid, err := strconv.Atoi(p.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		at := filepath.Join("/proc", p.Name(), "fd")
		files, _ := os.ReadDir(at)
		for _, f := range files {
			target, _ := os.Readlink(filepath.Join(at, f.Name()))
			for _, root := range roots {
				if strings.HasPrefix(target, root) {
					name, _ := os.ReadFile(filepath.Join("/proc", p.Name(), "comm"))
					return fmt.Errorf("process %d (%s) has %s open: %w", pid, bytes.TrimSpace(name), target, ErrRunning)
				}
			}
		}
	}
	return nil
}
