// Package location finds the repository of backups that a user names: a directory, or an
// object store (s3://BUCKET/PREFIX). It has the flags of commands that say how
// to reach the store.
//
// A repository in an object store has a staging directory on this machine, in the cache
// directory of the user by default. There is one for each place and each command that
// runs at the same time, so that a backup continues with the parts that the last one left.
//
// The package opens repositories. What is done with them is in package backup.
package location

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v3"

	"tsdbd/backup"
	"tsdbd/internal/object/place"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/vfs"
)

// Location is how to reach places with backups. Its flags set it.
type Location struct {
	store s3.Options
	stage string
}

// Flags returns the flags of object stores.
func (l *Location) Flags() []cli.Flag {
	flag := func(name string, to *string, usage string, env ...string) cli.Flag {
		return &cli.StringFlag{Name: name, Destination: to, Sources: cli.EnvVars(env...), Usage: usage}
	}
	return []cli.Flag{
		flag("endpoint", &l.store.Endpoint, "of s3:// the server at `URL`, not Amazon", "TSDBD_S3_ENDPOINT", "AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL"),
		flag("region", &l.store.Region, "of s3:// the `REGION`, by default us-east-1", "TSDBD_S3_REGION", "AWS_REGION", "AWS_DEFAULT_REGION"),
		&cli.BoolFlag{Name: "path-style", Destination: &l.store.PathStyle, Usage: "of s3:// put the bucket into the path of URLs, not into the name of the host"},
		flag("access-key", &l.store.AccessKey, "log in to s3:// with `KEY`; without it AWS_ACCESS_KEY_ID, ~/.aws/credentials, or the role of the container counts", "TSDBD_S3_ACCESS_KEY"),
		flag("secret-key", &l.store.SecretKey, "its `SECRET`; the variable shows in no list of processes", "TSDBD_S3_SECRET_KEY"),
		flag("stage", &l.stage, "of s3:// keep files that are sent or read in `DIR` until then, not in the cache directory of the user", "TSDBD_S3_STAGE"),
	}
}

// Open returns the repository that a path or a URL names. The caller must close it. What
// takes room or time beforehand is written to stderr.
func (l *Location) Open(text string, stderr io.Writer) (*backup.Repository, error) {
	p, err := place.Parse(text)
	switch {
	case err != nil:
		return nil, fmt.Errorf("place of backups: %w", err)
	case p.Dir != "":
		return backup.OpenRepository(vfs.OS, p.Dir), nil
	}
	return l.openBucket(p, stderr)
}

// maxStages is how many commands may work with one place at the same time.
const maxStages = 8

func (l *Location) openBucket(p place.Place, stderr io.Writer) (*backup.Repository, error) {
	store, err := p.Open(vfs.OS, l.store)
	if err != nil {
		return nil, err
	}
	stage := l.stage
	if stage == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, fmt.Errorf("name a directory for files that are sent or read with -stage: %w", err)
		}
		stage = filepath.Join(cache, "tsdbd", "stage")
	}
	if stage, err = filepath.Abs(stage); err != nil {
		return nil, err
	}
	where := p.String()
	sum := sha256.Sum256([]byte(l.store.Endpoint + "\n" + where))
	stage = path.Join(filepath.ToSlash(stage), hex.EncodeToString(sum[:8]))
	notice := func(text string) { fmt.Fprintln(stderr, text) }
	for n := range maxStages {
		r, err := backup.OpenStaged(store, where, backup.StageOptions{FS: vfs.OS, Dir: path.Join(stage, strconv.Itoa(n)), Notice: notice})
		if !errors.Is(err, vfs.ErrLocked) {
			return r, err
		}
	}
	return nil, fmt.Errorf("%d commands use the staging directories in %s: %w", maxStages, stage, vfs.ErrLocked)
}
