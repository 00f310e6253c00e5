package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/backup/location"
	"tsdbd/exchange"
	"tsdbd/inspect"
	"tsdbd/internal/binio"
)

var (
	errDamaged    = errors.New("there is damage")
	errOtherBuild = errors.New("there are backups of another build, which this one cannot check")
)

func verifyCommand() *cli.Command {
	var client exchange.Client
	var at location.Location
	var asJSON bool
	var repository string
	return &cli.Command{
		Name:      "verify",
		Usage:     "check data files, of a stopped or a running server",
		UsageText: "tsdbd verify [flags] DIR\ntsdbd verify [flags] -host URL\ntsdbd verify [flags] -backup PLACE [NAME]",
		Description: `tsdbd verify checks data: every checksum, that files are those their manifests name, that values and statistics agree, and that catalog, series file, indexes and data agree with each other. It changes nothing and lists each damage with its file and offset. It says sound or DAMAGED, or of data that it does not check OLDER, NEWER (than this program), or FOREIGN (not of tsdbd). The exit code is 0 only for what is sound.

Examples:
  tsdbd verify /var/lib/tsdbd         # without a server
  tsdbd verify -host http://127.0.0.1:8086
                                      # a running one
  tsdbd verify -backup /backups       # all backups, every byte`,
		Flags: slices.Concat([]cli.Flag{
			&cli.BoolFlag{Name: "json", Destination: &asJSON, Usage: "write JSON"},
			&cli.StringFlag{Name: "backup", Destination: &repository, Usage: "check the backups in `PLACE`, a directory or s3://BUCKET/PREFIX: all, or the one that is named"},
		}, clientFlags(&client, ""), at.Flags()),
		Action: action(func(ctx context.Context, c *cli.Command, rest []string, stdout, stderr io.Writer) error {
			withScheme(&client)
			if repository != "" {
				if len(rest) > 1 || client.URL != "" {
					return usageError(c, "verify -backup takes one name of a backup at most")
				}
				r, err := at.Open(repository, stderr)
				if err != nil {
					return err
				}
				defer r.Close()
				return verifyBackups(ctx, r, repository, rest, asJSON, stdout, newProgress(stderr))
			}
			if (len(rest) == 1) == (client.URL != "") || len(rest) > 1 {
				return usageError(c, "verify takes either a directory or -host")
			}
			var report *inspect.VerifyReport
			if client.URL != "" {
				stop := newProgress(stderr).during("the server checks its files, %s")
				var err error
				report, err = backup.Verify(ctx, &client)
				stop()
				if err != nil {
					return err
				}
			} else {
				dir, err := absolute(rest[0])
				if err != nil {
					return err
				}
				hold, err := inspect.Hold(dir)
				if errors.Is(err, inspect.ErrInUse) {
					return fmt.Errorf("%w: verify it with -host", err)
				}
				if err == nil {
					defer hold.Close()
					p := newProgress(stderr)
					report, err = inspect.Verify(ctx, dir, inspect.VerifyOptions{Progress: func(path string) { p.show("%s", path) }})
					p.clear()
				}
				if r := inspect.Unread(dir, err); r != nil {
					return errors.Join(inspect.Write(stdout, r, asJSON), err)
				}
				if err != nil {
					return err
				}
			}
			if err := inspect.Write(stdout, report, asJSON); err != nil {
				return err
			}
			if !report.Sound {
				return errDamaged
			}
			return nil
		}),
	}
}

// backupReport is the outcome for one backup.
type backupReport struct {
	Name    string   `json:"name"`
	Sound   bool     `json:"sound"`
	Other   string   `json:"other,omitempty"` // "older" or "newer": another build has written it
	Damages []string `json:"damages"`
}

type backupReports []backupReport

func (r backupReports) WriteText(w io.Writer) error {
	for _, b := range r {
		for _, d := range b.Damages {
			fmt.Fprintln(w, d)
		}
		state := "sound"
		switch {
		case b.Other != "":
			state = strings.ToUpper(b.Other)
		case !b.Sound:
			state = "DAMAGED"
		}
		if _, err := fmt.Fprintf(w, "backup %s: %s\n", b.Name, state); err != nil {
			return err
		}
	}
	return nil
}

func verifyBackups(ctx context.Context, r *backup.Repository, place string, names []string, asJSON bool, stdout io.Writer, p *progress) (err error) {
	defer p.clear()
	if len(names) == 0 {
		if names, err = r.List(ctx); err != nil {
			return err
		}
		if len(names) == 0 {
			return fmt.Errorf("%s: no backup in it", place)
		}
	}
	sound, others := true, false
	var reports backupReports
	for _, n := range names {
		report := backupReport{Name: n, Damages: []string{}}
		_, m, err := r.Manifest(ctx, n)
		var other *binio.VersionError
		if errors.As(err, &other) {
			report.Other, others = other.Age(), true
		}
		if err != nil {
			report.Damages = append(report.Damages, err.Error())
		} else {
			damage, err := r.Check(ctx, m, func(x backup.Progress) { p.checked(n, x) })
			if err != nil {
				return err
			}
			for _, d := range damage {
				report.Damages = append(report.Damages, d.Error())
			}
			for _, d := range m.Damaged {
				report.Damages = append(report.Damages, fmt.Sprintf("left out when it was taken: %s of shard %d of database %s: %s", d.Name, d.Shard, d.Database, d.Reason))
			}
		}
		report.Sound = len(report.Damages) == 0
		sound = sound && (report.Sound || report.Other != "")
		reports = append(reports, report)
	}
	p.clear()
	if err := inspect.Write(stdout, reports, asJSON); err != nil {
		return err
	}
	switch {
	case !sound:
		return errDamaged
	case others:
		return errOtherBuild
	}
	return nil
}
