// Package place finds the object store that a user names: a directory, or
// s3://BUCKET/PREFIX.
//
// Parse says what a text names, Open opens it. The package sends nothing to a bucket.
package place

import (
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"path/filepath"
	"strings"

	"tsdbd/internal/object"
	"tsdbd/internal/object/s3"
	"tsdbd/internal/vfs"
)

// Place is what a text names.
type Place struct {
	Dir            string // a directory of this machine, with slashes; "": a bucket
	Bucket, Prefix string
}

// isURL reports whether a text begins like a URL. A drive of Windows has one letter.
func isURL(text string) bool {
	scheme, _, ok := strings.Cut(text, "://")
	return ok && len(scheme) > 1 && !strings.ContainsAny(scheme, `/\.`)
}

// Parse returns what a path or a URL names.
func Parse(text string) (Place, error) {
	if !isURL(text) {
		return directory(text)
	}
	u, err := url.Parse(text)
	if err != nil || u.RawQuery != "" || u.Fragment != "" || u.User != nil {
		return Place{}, errors.New("the place of objects is a directory or a URL such as s3://BUCKET/PREFIX, without a login and a query")
	}
	switch u.Scheme {
	case "file":
		if u.Host != "" && u.Host != "localhost" || u.Path == "" {
			return Place{}, fmt.Errorf("%s names no directory of this machine: write file:///PATH", text)
		}
		return directory(filepath.FromSlash(u.Path))
	case "s3":
		prefix := strings.Trim(u.Path, "/")
		if prefix != "" && !fs.ValidPath(prefix) {
			return Place{}, fmt.Errorf("%q is no prefix of names in a bucket", prefix)
		}
		return Place{Bucket: u.Host, Prefix: prefix}, nil
	}
	return Place{}, fmt.Errorf("objects cannot be in %s: name a directory, or s3://BUCKET/PREFIX with the endpoint of a store that has the API of S3", text)
}

func directory(dir string) (Place, error) {
	dir, err := filepath.Abs(dir)
	return Place{Dir: filepath.ToSlash(dir)}, err
}

// String names the place, for messages.
func (p Place) String() string {
	if p.Dir != "" {
		return p.Dir
	}
	return "s3://" + path.Join(p.Bucket, p.Prefix)
}

// Open returns the store. The options say how to reach a bucket.
func (p Place) Open(fsys vfs.FS, opt s3.Options) (object.Store, error) {
	if p.Dir != "" {
		return object.OpenDir(fsys, p.Dir), nil
	}
	opt.Bucket, opt.Prefix = p.Bucket, p.Prefix
	return s3.Open(opt)
}
