package proc

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"time"
)

// startTimeout is how long a server may take to be ready.
const startTimeout = 2 * time.Minute

// Server is a server program that runs. It ends with this process on Linux.
type Server struct {
	cmd    *exec.Cmd
	output string
	done   chan struct{} // closed when the program has ended
	err    error         // of its end, once done
}

// Launch starts a command, which writes to a new file at output.
func Launch(cmd *exec.Cmd, output string) (*Server, error) {
	file, err := os.Create(output)
	if err != nil {
		return nil, err
	}
	defer file.Close() // the program has its own
	cmd.Stdout, cmd.Stderr = file, file
	Prepare(cmd)
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	s := &Server{cmd: cmd, output: output, done: make(chan struct{})}
	go func() {
		s.err = cmd.Wait()
		close(s.done)
	}()
	return s, nil
}

// Await waits until ready returns nil. If the server ends before, or takes too
// long, Await kills it and returns an error with the end of its output.
func (s *Server) Await(ctx context.Context, ready func(ctx context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	for {
		err := ready(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			err = errors.Join(context.Cause(ctx), err)
		case <-s.done:
			err = fmt.Errorf("the server ended at its start: %w", s.err)
		case <-time.After(2 * time.Millisecond):
			continue
		}
		s.Kill()
		text := s.Output()
		return fmt.Errorf("%w\n%s", err, text[max(0, len(text)-4000):])
	}
}

// Output returns what the server has printed so far.
func (s *Server) Output() string {
	text, err := os.ReadFile(s.output)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Pid returns the process id.
func (s *Server) Pid() int { return s.cmd.Process.Pid }

// Ended reports whether the server has ended.
func (s *Server) Ended() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// Signal sends a signal.
func (s *Server) Signal(sig os.Signal) error { return s.cmd.Process.Signal(sig) }

// Stop asks the server to end and waits for its end, which is an error if it
// comes later than the timeout, by force then, or with another exit code than 0.
func (s *Server) Stop(timeout time.Duration) error {
	err := Stop(s.cmd)
	select {
	case <-s.done:
	case <-time.After(timeout):
		err = fmt.Errorf("the server did not end in %v", timeout)
		s.Kill()
	}
	return errors.Join(err, s.err)
}

// Kill ends the server as a crash does, and waits for its end.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill() // no harm when it has ended
	<-s.done
}
