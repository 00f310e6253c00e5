// Package badinput holds requests that a server must refuse, with the status
// and the words it must refuse them with, and runs them against any base URL.
// The same table drives the handler over a fake store and the real binary. It
// is imported by tests only.
package badinput
