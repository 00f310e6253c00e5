// Command licenses prints the licenses of everything that is linked into tsdbd:
// the modules that it imports on any system, with their notices, Go itself, and the
// npm packages in the page for browsers.
// It fails if one has no license, or one of a kind that nobody has looked at.
package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

func main() {
	out, err := licenses()
	if err == nil {
		_, err = os.Stdout.Write(out)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "licenses:", err)
		os.Exit(1)
	}
}

// systems are those that .ci/dist builds for: a module may be imported on one.
var systems = []string{"linux", "darwin", "freebsd", "windows"}

// kinds are licenses that a program under the license of MIT may link, by words
// of their texts.
var kinds = []struct{ name, words string }{
	{"MPL-2.0", "Mozilla Public License"},
	{"Apache-2.0", "Apache License Version 2.0"},
	{"MIT", "Permission is hereby granted, free of charge, to any person obtaining a copy"},
	{"ISC", "Permission to use, copy, modify, and/or distribute this software for any purpose"},
	{"BSD", "Redistribution and use in source and binary forms"},
}

// module is a module with the files of its licenses.
type module struct {
	Path, Version, Dir string
	files              []string
}

func licenses() ([]byte, error) {
	modules, err := linked()
	if err != nil {
		return nil, err
	}
	var list, texts bytes.Buffer
	list.WriteString("tsdbd is linked with the modules below. tsdbd itself has the license in LICENSE.\n\n")
	for _, m := range modules {
		var names []string
		for _, file := range m.files {
			text, err := os.ReadFile(file)
			if err != nil {
				return nil, err
			}
			if kind := kindOf(string(text)); kind != "" && !slices.Contains(names, kind) {
				names = append(names, kind)
			}
			name, err := filepath.Rel(m.Dir, file)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&texts, "\n%s\n%s %s: %s\n\n%s\n", strings.Repeat("=", 72), m.Path, m.Version, filepath.ToSlash(name), bytes.TrimSpace(text))
		}
		if len(names) == 0 {
			return nil, fmt.Errorf("%s %s has no license that is known, in %q", m.Path, m.Version, m.files)
		}
		fmt.Fprintf(&list, "%s %s: %s\n", m.Path, m.Version, strings.Join(names, ", "))
		if slices.Contains(names, "MPL-2.0") {
			fmt.Fprintf(&list, "    not modified; its source is at https://proxy.golang.org/%s/@v/%s.zip\n", escape(m.Path), m.Version)
		}
	}
	packages, err := bundled()
	if err != nil {
		return nil, err
	}
	list.WriteString("\nThe page for browsers is built with these packages of npm:\n\n")
	for _, p := range packages {
		fmt.Fprintf(&list, "%s %s: %s\n", p.name, p.version, p.kind)
		fmt.Fprintf(&texts, "\n%s\n%s %s\n\n%s\n", strings.Repeat("=", 72), p.name, p.version, p.text)
	}
	return append(list.Bytes(), texts.Bytes()...), nil
}

// npm is a package of npm.
type npm struct{ name, version, kind, text string }

// bundled returns the packages in the page, from the file that its build writes.
func bundled() ([]npm, error) {
	const file = "web/LICENSES.md"
	page, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	var all []npm
	for section := range strings.SplitSeq(string(page), "\n## ") {
		head, text, _ := strings.Cut(section, "\n")
		m := regexp.MustCompile(`^(\S+) - (\S+) \(.*\)$`).FindStringSubmatch(head)
		if m == nil {
			continue // the introduction
		}
		p := npm{m[1], m[2], kindOf(text), strings.TrimSpace(text)}
		if p.kind == "" {
			return nil, fmt.Errorf("%s: %s %s has no license that is known", file, p.name, p.version)
		}
		all = append(all, p)
	}
	if len(all) == 0 {
		return nil, fmt.Errorf("%s names no package", file)
	}
	return all, nil
}

// escape writes a path as the module proxy does, where capitals have a mark.
func escape(path string) string {
	return regexp.MustCompile(`[A-Z]`).ReplaceAllStringFunc(path, func(s string) string { return "!" + strings.ToLower(s) })
}

// kindOf returns the kind of a license, "" for another text.
func kindOf(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	for _, k := range kinds {
		if strings.Contains(strings.ToLower(text), strings.ToLower(k.words)) {
			return k.name
		}
	}
	return ""
}

// linked returns the modules of the program on any system, and Go's standard
// library, by path.
func linked() ([]*module, error) {
	goroot, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		return nil, fmt.Errorf("go env: %w", err)
	}
	std := &module{Path: "Go", Version: runtime.Version(), Dir: strings.TrimSpace(string(goroot))}
	std.add(std.Dir)
	byPath := map[string]*module{"": std}
	for _, system := range systems {
		list := exec.Command("go", "list", "-deps", "-json=Dir,Module", "-tags", "urfave_cli_no_template", "./cmd/tsdbd")
		list.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
		list.Stderr = os.Stderr
		out, err := list.Output()
		if err != nil {
			return nil, fmt.Errorf("go list for %s: %w", system, err)
		}
		for d := json.NewDecoder(bytes.NewReader(out)); ; {
			var p struct {
				Dir    string
				Module *struct {
					module
					Main bool
				}
			}
			err := d.Decode(&p)
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				return nil, err
			}
			if p.Module == nil || p.Module.Main {
				continue
			}
			m := byPath[p.Module.Path]
			if m == nil {
				m = &p.Module.module
				byPath[m.Path] = m
			}
			m.add(p.Dir)
		}
	}
	var all []*module
	for _, m := range byPath {
		all = append(all, m)
	}
	slices.SortFunc(all, func(a, b *module) int { return strings.Compare(a.Path, b.Path) })
	return all, nil
}

var fileNames = regexp.MustCompile(`(?i)^(un)?(licen[sc]e|copying|notice|patents)([.-].*)?$`)

// add notes the files of licenses in the directory of a package and in those
// above it.
func (m *module) add(dir string) {
	for ; strings.HasPrefix(dir, m.Dir); dir = filepath.Dir(dir) {
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // there is nothing to note then, and licenses says so
		}
		for _, e := range entries {
			file := filepath.Join(dir, e.Name())
			if e.Type().IsRegular() && fileNames.MatchString(e.Name()) && filepath.Ext(file) != ".go" && !slices.Contains(m.files, file) {
				m.files = append(m.files, file)
			}
		}
	}
	slices.Sort(m.files)
}
