// Package archtest holds tests of the shape of the repository: which of our
// packages import which. It has no code of its own.
package archtest
