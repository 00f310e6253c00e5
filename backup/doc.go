// Package backup copies a server's data: whole files, as a backup, and points,
// as line protocol.
//
// A backup of a running server begins with a session: Handler has the store
// flush the chosen shards at one sequence (store.Backup) and answers with a
// Manifest that names every file by its content. The client (Take) fetches the
// objects that its directory lacks and then writes the manifest; so each backup
// in a directory is whole, and costs only what is new. The session holds the
// files on the server's disk until the client ends it or is silent for long.
//
// A backup in a directory (Repository) can be placed in an empty data directory
// (Place), checked (Check), or opened as a read-only store (Open). Restore into
// a running server opens it so and writes its points to the server: they merge
// with what is there, newer over older by the rules of writes.
//
// Export writes the points of any store as line protocol, Import sends line
// protocol to a server.
//
// Invariants: a manifest is written only after every object that it names is
// there, whole, synced and hashed; an object never changes; Place writes the
// catalog last, so that a directory half placed is no data directory.
//
// The package does not schedule backups and does not copy the log: the flush
// has put what it holds into files. A Handler is safe for concurrent use;
// a Repository has one writer at a time, which it sees to by a lock.
package backup
