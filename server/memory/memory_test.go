package memory

import (
	"io/fs"
	"testing"
)

func TestMemoryThereIs(t *testing.T) {
	f := func(name string, files map[string]string, machine, group int64) {
		t.Helper()
		read := func(path string) ([]byte, error) {
			if text, ok := files[path]; ok {
				return []byte(text), nil
			}
			return nil, fs.ErrNotExist
		}
		if got := machineMemory(read); got != machine {
			t.Errorf("%s: machine %d, want %d", name, got, machine)
		}
		if got := cgroupMemory(read); got != group {
			t.Errorf("%s: cgroup %d, want %d", name, got, group)
		}
	}
	f("nothing", nil, 0, 0)
	f("version 1, container sees its own root", map[string]string{
		"/proc/meminfo":     "MemTotal:       16000000 kB\nMemFree: 1 kB\n",
		"/proc/self/cgroup": "4:memory:/docker/abc\n3:cpu:/\n0::/\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "536870912\n",
	}, 16000000<<10, 512<<20)
	f("version 1, unlimited", map[string]string{
		"/proc/self/cgroup":                           "4:cpu,memory:/\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
	}, 0, 0)
	f("version 1, the parent is tighter", map[string]string{
		"/proc/self/cgroup": "4:memory:/a/b\n",
		"/sys/fs/cgroup/memory/a/b/memory.limit_in_bytes": "3000000000\n",
		"/sys/fs/cgroup/memory/a/memory.limit_in_bytes":   "2000000000\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes":     "9223372036854771712\n",
	}, 0, 2000000000)
	f("version 2", map[string]string{
		"/proc/self/cgroup":                                    "0::/system.slice/tsdbd.service\n",
		"/sys/fs/cgroup/system.slice/memory.max":               "max\n",
		"/sys/fs/cgroup/system.slice/tsdbd.service/memory.max": "1073741824\n",
	}, 0, 1<<30)
	f("nonsense", map[string]string{
		"/proc/meminfo":     "MemTotal: many kB\n",
		"/proc/self/cgroup": "x\n\n4:memory\n1:memory:relative\n",
		"/sys/fs/cgroup/memory/memory.limit_in_bytes": "-1\n",
	}, 0, 0)
}

// TestShareOf: the smaller of machine and cgroup counts, and a 32-bit program
// leaves addresses for mapped files.
func TestShareOf(t *testing.T) {
	f := func(machine, group int64, bits int, want int64, source string) {
		t.Helper()
		if n, s := shareOf(machine, group, bits); n != want || s != source {
			t.Errorf("%d of %s, want %d of %s", n, s, want, source)
		}
	}
	f(10<<30, 0, 64, 8<<30, "machine")
	f(10<<30, 5<<30, 64, 4<<30, "cgroup")
	f(5<<30, 10<<30, 64, 4<<30, "machine")
	f(0, 0, 64, 2<<30, "guess")
	f(10<<30, 0, 32, addressable, "32-bit addresses")
	f(0, 0, 32, addressable, "32-bit addresses")
	f(0, 640<<20, 32, 512<<20, "cgroup")
	if n := systemMemory(); n < 1<<26 {
		t.Errorf("this machine has %d bytes", n)
	}
}
