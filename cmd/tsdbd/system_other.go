//go:build !windows

package main

import "syscall"

// What the network says, by the system's name for it.
const (
	errAddressInUse  = syscall.EADDRINUSE
	errNoSuchAddress = syscall.EADDRNOTAVAIL
	errRefused       = syscall.ECONNREFUSED
)
