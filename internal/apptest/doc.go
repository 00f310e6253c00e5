// Package apptest starts the real server binary for black-box tests: it is
// built once per test process, listens on a free port of 127.0.0.1, and may be
// killed at any moment. Nothing in it knows the server's insides.
package apptest
