package memory

import "os"

// systemMemory returns the machine's memory in bytes, 0 if it is not known.
func systemMemory() int64 { return machineMemory(os.ReadFile) }
