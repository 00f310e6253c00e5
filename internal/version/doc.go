// Package version says which version of tsdbd a program is: the one place that every
// command, answer, metric and package takes it from.
//
// A version is that of the linker's flag, which the Makefile and .ci/dist set from
// .ci/version; else of the tag that the go command has built; else that of the next
// release with -dev and the commit. Versions are those of semver.org, without a v.
//
// The versions of formats and protocols are not here: each is beside its reader.
package version
