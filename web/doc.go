// Package web serves the page of the server: the files of the directory dist, which
// are built from the sources in the directory ui and are part of the program. The
// page speaks to the server only through its HTTP API, with the login that the user
// types in.
package web
