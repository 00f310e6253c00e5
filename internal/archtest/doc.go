// Package archtest has tests of the repository as a whole: which packages import which,
// whether the documents name what exists, and the size of its files. It has no code of
// its own.
package archtest
