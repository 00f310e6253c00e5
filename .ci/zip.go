// Command zip writes a directory into a zip file that depends on nothing but
// its content: zip OUT BASE NAME SECONDS packs BASE/NAME as NAME.
package main

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "zip:", err)
		os.Exit(1)
	}
}

func run(args []string) (err error) {
	if len(args) != 4 {
		return errors.New("usage: zip OUT BASE NAME SECONDS")
	}
	seconds, err := strconv.ParseInt(args[3], 10, 64)
	if err != nil {
		return err
	}
	out, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	z := zip.NewWriter(out)
	// In the order of names.
	err = filepath.WalkDir(filepath.Join(args[1], args[2]), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		name, err := filepath.Rel(args[1], path)
		if err != nil {
			return err
		}
		w, err := z.CreateHeader(&zip.FileHeader{Name: filepath.ToSlash(name), Method: zip.Deflate, Modified: time.Unix(seconds, 0).UTC()})
		if err != nil {
			return err
		}
		f, err := os.Open(path)
		if err != nil {
			return err
		}
		defer f.Close()
		_, err = io.Copy(w, f)
		return err
	})
	return errors.Join(err, z.Close())
}
