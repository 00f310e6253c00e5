package version

import (
	"regexp"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
)

// Next is the next release, or the present one at its tag. .ci/version reads this line.
const Next = "0.9.0"

// stamped and commit are set by the linker, as .ci/version -ldflags prints it.
var stamped, commit string

// Build says what a program was built from.
type Build struct {
	Version  string // such as 0.9.0, 0.9.0-rc1, 0.9.0-dev+caf0f708
	Commit   string // all digits of its hash, "" if it is not known
	Time     string // of the commit, as RFC 3339 has it, "" if it is not known
	Modified bool   // built from files that differ from the commit
}

// Of returns the build of this program.
var Of = sync.OnceValue(func() Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return of(stamped, commit, info)
})

// String returns the version of this program.
func String() string { return Of().Version }

// UserAgent returns what the program calls itself when it asks a server.
func UserAgent() string { return "tsdbd/" + String() }

// shortCommit is how many digits of a commit a version has.
const shortCommit = 8

// between are versions that the go command makes up for a commit without a tag.
var between = regexp.MustCompile(`[-.]\d{14}-[0-9a-f]{12}(\+|$)`)

func of(stamped, commit string, info *debug.BuildInfo) Build {
	b := Build{Version: stamped, Commit: commit}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.time":
			b.Time = s.Value
		case "vcs.modified":
			b.Modified = s.Value == "true"
		}
	}
	if b.Version != "" {
		return b
	}
	tag, isTag := strings.CutPrefix(info.Main.Version, "v")
	if isTag && !between.MatchString(tag) && !strings.HasSuffix(tag, "+dirty") {
		b.Version = tag
		return b
	}
	b.Version = Next + "-dev"
	if len(b.Commit) >= shortCommit {
		b.Version += "+" + b.Commit[:shortCommit]
		if b.Modified {
			b.Version += ".changed"
		}
	}
	return b
}

// Text returns the version, the commit, and what the program was built with and for.
func (b Build) Text() string {
	const digits = 12
	text := "tsdbd " + b.Version
	if len(b.Commit) >= digits {
		text += " (" + b.Commit[:digits]
		if b.Modified {
			text += ", changed"
		}
		text += ")"
	}
	return text + " " + runtime.Version() + " " + runtime.GOOS + "/" + runtime.GOARCH
}
