// Package backup takes backups of a running server and restores them. A backup
// consists of whole files. Package transfer copies points.
//
// A backup of a running server begins with a session. Handler has the store
// flush the chosen shards at one sequence (store.Backup) and answers with a
// Manifest that names every file by its content. The client (Take) fetches the
// objects that its directory lacks and then writes the manifest. So each backup
// in a directory is whole, and costs only what is new. The session holds the
// files on the server's disk until the client ends it or is silent for long.
//
// A Repository is a directory or an object store (package internal/object). The code is
// the same: objects are put under names that have none, and read in ranges. Where files
// are needed, a directory has them, and copies of the objects of a bucket come to a
// staging directory (OpenStaged) first.
//
// A backup in a Repository can be placed in an empty data directory
// (Place), checked (Check), or opened as a read-only store (Open). Restore into
// a running server opens it so and writes its points to the server, where they
// merge with those that exist by the rules of writes.
//
// Files that were cold when the backup was taken can stay so (Cold): Place makes tails of
// them, and publishes which objects these need before it looks whether they are there.
//
// Invariants: a manifest is written only after every object that it names is
// there, whole, synced, and hashed. An object never changes. Place writes the
// catalog last, so that a server does not start on a directory half restored.
//
// The package does not schedule backups and does not copy the log, because the
// flush has put its entries into files. A Handler is safe for concurrent use. A
// Repository has one writer at a time. A lock file enforces it in a directory, and a lease
// in an object store. The writer looks at it before it writes a manifest or removes
// objects.
package backup
