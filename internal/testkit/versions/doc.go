// Package versions has tests of what docs/formats/README.md promises: this program reads
// what earlier versions have written, and says what is the matter with the rest.
//
// testdata/versions of the repository has a directory for each version. It holds what the
// program of that version wrote, as archives: a data directory after a kill, a place of
// backups, and the data directory of a node of a cluster. answers.json has questions, and the
// answers that the program gave. TestVersions opens each, asks, writes, merges, deletes,
// backs up, restores and verifies.
//
//	make version-data VERSION=0.9.1
//
// makes the directory of the version that is about to be released. It is never made again
// after the release.
//
// testdata/versions/18107fe4 is of the build of that commit, whose formats are not read.
// TestBeforeThePromise checks that it is refused with the way to bring its points over, and
// goes that way.
package versions
