// Package apptest starts the real server binary for black-box tests: it is
// built once per test process, listens on a free port of 127.0.0.1, and may be
// killed at any moment. Nothing in it knows the server's insides.
//
// The tests kill the server, stop it under load, fill its disk, fail its system
// calls, take its memory, harm its files, and send it everything a client can
// get wrong; what was acknowledged must be there afterwards, and what was
// refused must not. Each takes seconds and has flags for longer runs. Those that
// need root, a cgroup, a mount or strace skip where there is none.
package apptest
