// Package scrub reads everything that is at rest in the data directory of a running server,
// again and again, and finds damage before a query or a merge meets it.
//
// The Service goes through parts: the files in meta, the log of a single node, the
// series file of each database, and the files of each shard. A part is due when its last
// check is half an interval ago; then it is read, the one first that has waited longest, at a
// rate that leaves time to spare in the other half. So every part is read within the interval.
// Start makes all parts due at once, and has them read as fast as the disk gives.
// When each part was checked is kept in a file, so that it resumes after a restart.
//
// Damage is handled like damage that a read has found: the shard or the database notes it, so
// that it shows in health and that another node heals it. What memory still has, such as a
// manifest or the catalog, is written again. Damage counts only if a second look finds it
// too. The files with damage, and those that could not be read, are read again, alone; a part
// with a file that could not be read does not count as checked before.
//
// A check takes a buffer of fixed size, and holds one file of a shard at a time. What it has read it takes out of the cache of the
// system, except what queries have mapped.
//
// A Service is safe for concurrent use. Run is called once.
package scrub
