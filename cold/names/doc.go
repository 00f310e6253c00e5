// Package names keeps, in a store of objects, the names of the objects that servers need.
//
// Objects are named by their content, so servers share them, and backups may be in the same
// store. Nobody may remove an object that somebody needs. So each node publishes a list of
// the names that its manifests have, and of those that they are about to get (Publish), and
// whoever removes objects reads the lists of all (All).
//
//	cold/names/<node>.<number>   a list; the newest of each node counts. Restored names
//	                             those of directories that no server has started on yet,
//	                             and <node>-set-aside-N those that a node has set aside
//	cold/owner/<number>          whose the cold store is; the newest counts
//	cold/states/             what readers open: manifests, which need objects as well
//	cold/lease/                  the lease of a bucket
//	cold/LOCK                    the lock of a directory
//
// Whoever removes objects, and whoever is about to name objects that are there already, hold
// the lock (Lock): between the look at the lists and the removal no node begins to
// need an object.
package names
