// Package object stores whole objects under names: in a directory (Dir), or in a bucket
// (package s3). Package backup keeps its objects and manifests so.
//
// A Store has five methods. An object never changes: Put fails if the name has an
// object. Put of a file takes the file, so that a directory renames it and no byte is
// copied. A Lease keeps all writers but one out of a store that has no locks.
//
// Invariants: an object is there whole, or not at all. Objects that were put from
// files are durable once a later Put of bytes has returned, which is durable itself.
// Delete is durable.
//
// The package does not hash what it reads: callers know the content of their objects. All
// methods of a Store are safe for concurrent use.
package object
