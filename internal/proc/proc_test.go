package proc

import (
	"os"
	"os/exec"
	"os/signal"
	"syscall"
	"testing"
	"time"
)

func TestCPUTime(t *testing.T) {
	begin := CPUTime()
	for deadline := time.Now().Add(time.Minute); CPUTime() == begin; {
		if time.Now().After(deadline) {
			t.Fatal("a minute of work took no time")
		}
	}
}

// TestStop: a stopped command gets the signal that the server ends by.
func TestStop(t *testing.T) {
	if os.Getenv("PROC_TEST_STOP") != "" { // the command
		c := make(chan os.Signal, 1)
		signal.Notify(c, os.Interrupt, syscall.SIGTERM)
		os.Stdout.WriteString("ready\n")
		select {
		case <-c:
			os.Exit(7)
		case <-time.After(time.Minute):
			os.Exit(8)
		}
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestStop$")
	cmd.Env = append(os.Environ(), "PROC_TEST_STOP=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	Prepare(cmd)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 6)
	if _, err := out.Read(b); err != nil || string(b) != "ready\n" {
		t.Fatalf("the command said %q, %v", b, err)
	}
	if err := Stop(cmd); err != nil {
		_ = cmd.Process.Kill()
		t.Fatal(err)
	}
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() != 7 {
		t.Errorf("the command ended with %v", err)
	}
}
