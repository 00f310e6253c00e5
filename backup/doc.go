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
// A backup in a directory (Repository) can be placed in an empty data directory
// (Place), checked (Check), or opened as a read-only store (Open). Restore into
// a running server opens it so and writes its points to the server, where they
// merge with those that exist by the rules of writes.
//
// Invariants: a manifest is written only after every object that it names is
// there, whole, synced, and hashed. An object never changes. Place writes the
// catalog last, so that a server does not start on a directory half restored.
//
// The package does not schedule backups and does not copy the log, because the
// flush has put its entries into files. A Handler is safe for concurrent use. A
// Repository has one writer at a time; a lock file enforces it.
package backup
