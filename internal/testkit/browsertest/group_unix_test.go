//go:build unix

package browsertest

import (
	"os/exec"
	"syscall"
)

// endWithGroup makes cmd the first of a group of processes, which all end when its
// context does.
func endWithGroup(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
}
