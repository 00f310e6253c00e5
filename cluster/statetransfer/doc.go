// Package statetransfer copies the state of another node into a data directory that no
// store has open.
//
// Fetch takes a backup of the other node (package backup) into a staging directory and
// places it in a directory of its own. Files that the data directory has, and objects
// that an interrupted Fetch has left, are not fetched again. Switch then puts the new
// state where the old one was, and sets the old one aside. Clean removes what is not
// needed any more.
//
// Files that are cold stay so if the node has the same cold store (Options.Cold). Their tails
// are made of the objects there.
//
//	DATA/cluster/transfer/   the staging directory, a backup.Repository
//	DATA/cluster/incoming/   the new state until Switch
//	DATA/cluster/old/        the old state from Switch to Clean
//
// The caller notes durably that the directory needs a transfer before it calls Fetch,
// and that it has one after Switch. In between no store may open the directory. After
// a crash the caller begins with Fetch again: nothing of the old state is removed
// before Clean.
//
// The new state has the ids, the catalog, the position of the catalog in the log, and
// the sequences of the manifests of the other node. Its lineage is new, and it has no
// ledger: those belong to a directory.
package statetransfer
