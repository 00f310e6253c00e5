package shell

import (
	"bytes"
	"errors"
	"io"
	"os"
	"os/exec"
	"strings"
)

// pager holds back what is written until it is longer than the screen. Then a program
// shows it, as the user scrolls.
type pager struct {
	out     io.Writer // the terminal
	program string    // a command of sh
	height  int       // rows of the terminal

	held  bytes.Buffer
	lines int
	in    io.WriteCloser // of the program that runs; nil: none does
	cmd   *exec.Cmd
}

// errLeft is the error of what is written after the user has left the pager.
var errLeft = errors.New("the pager was left")

func (p *pager) Write(b []byte) (int, error) {
	if p.in != nil {
		return p.pass(b)
	}
	p.lines += bytes.Count(b, []byte{'\n'})
	if p.lines < p.height {
		return p.held.Write(b)
	}
	if err := p.start(); err != nil { // such as a program that is not there
		p.in = direct{p.out}
	}
	if _, err := p.pass(p.held.Bytes()); err != nil {
		return 0, err
	}
	return p.pass(b)
}

// direct is a terminal in place of the program.
type direct struct{ io.Writer }

func (direct) Close() error { return nil }

// start runs the program. Less gets usual options if the user has set none: leave at
// once if all fits, keep colors and the screen, and do not break long lines.
func (p *pager) start() error {
	name, _, _ := strings.Cut(strings.TrimSpace(p.program), " ")
	if _, err := exec.LookPath(name); err != nil {
		return err
	}
	cmd := exec.Command("sh", "-c", "export LESS=${LESS-FRSX}; "+p.program)
	cmd.Stdout, cmd.Stderr = p.out, os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return err
	}
	if err := cmd.Start(); err != nil {
		return errors.Join(err, in.Close())
	}
	p.in, p.cmd = in, cmd
	return nil
}

func (p *pager) pass(b []byte) (int, error) {
	n, err := p.in.Write(b)
	if err != nil && p.cmd != nil {
		err = errLeft
	}
	return n, err
}

// Close shows what is held back, or waits until the user leaves the program.
func (p *pager) Close() error {
	if p.in == nil {
		_, err := p.out.Write(p.held.Bytes())
		return err
	}
	err := p.in.Close()
	if p.cmd != nil {
		_ = p.cmd.Wait() // how it ends does not concern the statement
	}
	return err
}
