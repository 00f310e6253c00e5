package main

import "golang.org/x/sys/windows"

// What the network says, by the system's name for it.
const (
	errAddressInUse  = windows.WSAEADDRINUSE
	errNoSuchAddress = windows.WSAEADDRNOTAVAIL
	errRefused       = windows.WSAECONNREFUSED
)
