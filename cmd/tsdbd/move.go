package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/urfave/cli/v3"

	"tsdbd/exchange"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
	"tsdbd/transfer/mover"
	sinkserver "tsdbd/transfer/sink/server"
)

// move is what all moves by package mover have in common.
type move struct {
	client          exchange.Client // of the target, if it is a server
	journal, failed string
	dry             bool
	opt             mover.Options
	expected        int64 // rows or values; 0: not known
	stdout, stderr  io.Writer
	p               *progress
	begin           time.Time
}

// flags are the flags of all moves.
func (m *move) flags(journal string) []cli.Flag {
	return append(clientFlags(&m.client, defaultHost),
		&cli.StringFlag{Name: "journal", Destination: &m.journal, Usage: journal},
		&cli.StringFlag{Name: "failed", Destination: &m.failed, Usage: "write what was refused to `FILE`, as line protocol"},
		&cli.BoolFlag{Name: "dry-run", Destination: &m.dry, Usage: "list what is there, and move nothing"})
}

// start prepares what prints.
func (m *move) start(stdout, stderr io.Writer) {
	m.stdout, m.stderr, m.p, m.begin = stdout, stderr, newProgress(stderr), time.Now()
	m.opt.Note = mover.Once(func(text string) { m.note("%s", text) })
}

// note prints a line above the progress.
func (m *move) note(format string, args ...any) {
	m.p.clear()
	fmt.Fprintln(m.stderr, mover.Printable(fmt.Sprintf(format, args...)))
}

// kept opens the journal and the file of refused rows for the time of do. what names the
// source and the target. The journal is removed when all is done, and stays after an error
// that unfinished chooses. goOn says that a file of refused rows stays as it is, also
// without a journal.
func (m *move) kept(what string, goOn bool, do func() error, unfinished func(error) bool) (err error) {
	defer m.p.clear()
	if m.journal != "" {
		if m.opt.Journal, err = journal.Open(m.journal, what); err != nil {
			return err
		}
		goOn = goOn || m.opt.Journal.Len() > 0
	}
	j := m.opt.Journal
	if m.failed != "" {
		if m.opt.Failed, err = mover.OpenRefused(m.failed, goOn); err != nil {
			if j != nil {
				err = errors.Join(err, j.Close())
			}
			return err
		}
		defer func() { err = errors.Join(err, m.opt.Failed.Close()) }()
	}
	err = do()
	if j != nil && unfinished(err) && j.Len() > 0 {
		return errors.Join(err, j.Close())
	} else if j != nil {
		return errors.Join(err, j.Remove())
	}
	return err
}

// run moves a source into a sink. what names both for the journal.
func (m *move) run(ctx context.Context, what string, from mover.Source, to mover.Sink) (s *mover.Stats, err error) {
	err = m.kept(what, true, func() (err error) {
		s, err = mover.Run(ctx, from, to, m.opt)
		switch {
		case errors.Is(err, mover.ErrLost):
			return fmt.Errorf("%w; the same command begins again", err)
		case err != nil && m.opt.Journal != nil && m.opt.Journal.Len() > 0:
			return fmt.Errorf("%w; repeat the same command to continue after the finished parts", err)
		}
		return err
	}, func(err error) bool { return err != nil && !errors.Is(err, mover.ErrLost) })
	if s == nil {
		return nil, err
	}
	for _, reason := range s.Reasons {
		if reason.Values > 0 {
			m.note("refused, %d values: %s", reason.Values, reason.Text)
		} else {
			m.note("refused: %s", reason.Text)
		}
	}
	for _, reason := range s.EarlierRefused.Reasons {
		m.note("refused before the import was broken off: %s", reason)
	}
	return s, err
}

// text sends parts of text to a server. read, if set, says how far the sources are read.
func (m *move) text(ctx context.Context, parts []*mover.Part, opt sinkserver.Options, read func(points int64) string) (s *mover.Stats, err error) {
	m.opt.Progress = func(s mover.Stats) {
		far := ""
		if read != nil {
			far = read(s.Written + s.Refused)
		}
		m.p.show("%s%d points written, %d refused", far, s.Written, s.Refused)
	}
	err = m.kept("", false, func() (err error) {
		s, err = mover.Run(ctx, &mover.List{Items: parts}, sinkserver.New(&m.client, opt), m.opt)
		return err
	}, nil)
	return s, err
}

// result prints the outcome of sending text. Refused points are an error.
func (m *move) result(s *mover.Stats, what string) error {
	for _, reason := range s.Reasons {
		m.note("%s", reason.Text)
	}
	if _, err := fmt.Fprintf(m.stdout, "%d %s processed, %d written, %d refused", s.Written+s.Refused, what, s.Written, s.Refused); err != nil {
		return err
	}
	if s.Statements > 0 {
		fmt.Fprintf(m.stdout, "; %d statements, %d failed", s.Statements, s.FailedStatements)
	}
	fmt.Fprintln(m.stdout)
	if s.Refused > 0 {
		return fmt.Errorf("%d %s were refused", s.Refused, what)
	}
	return nil
}

// compared prints what both sides have. Of more measurements than most it names only those
// that differ.
func (m *move) compared(s *mover.Stats, most int, measurements, from, to string) error {
	source, target := s.Source, s.Target
	if len(source) > most {
		source, target = compare.Totals{}, compare.Totals{}
		for _, d := range compare.Differences(s.Source, s.Target) {
			for all, differ := range map[*compare.Totals]compare.Totals{&s.Source: source, &s.Target: target} {
				if of := (*all)[d.Name]; of != nil {
					differ[d.Name] = of
				}
			}
		}
		if _, err := fmt.Fprintf(m.stdout, "%d %s with %d values are equal in %s and %s\n", len(s.Source)-len(source), measurements, s.Source.Values()-source.Values(), from, to); err != nil || len(source) == 0 {
			return err
		}
	}
	return compare.Table(m.stdout, from, to, source, target)
}
