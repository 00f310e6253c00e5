// Package s3 is an object.Store in a bucket of Amazon S3, or of a server that has its API.
//
// Open checks the settings and finds the credentials. Every call is tried again while
// the bucket cannot be reached, until the patience ends or the context does. A request
// on which no byte moves is given up and tried again. Put has the bucket refuse a name
// that exists (If-None-Match), and signs the SHA-256 of the content, so that
// the bucket refuses bytes that changed on the way. Large objects go in parts. A
// reader of ReadRange continues where a connection broke.
//
// Errors are of the classes of package object. They name the bucket, the object, and
// what to do. They never hold a secret.
//
// The package does not make buckets and does not set rules of theirs.
package s3
