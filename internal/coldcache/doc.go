// Package coldcache reads objects of a store through a cache on a local disk. The bodies
// of cold TSM files are such objects.
//
// A Cache cuts objects into ranges of 1 MiB. Object.ReadBody copies bytes of cached
// ranges. A range that is missing is fetched by a run, one request for one range or some
// neighbors. All readers of a range wait for the same run. The run ends when its last
// reader has left. When reads walk forward through an object, the next ranges are fetched
// ahead of them. A fetched range becomes a file of the directory. Readers copy it from
// memory until a run needs that, and map the file then.
//
// Invariants: a range file is believed only after its checksum, which covers the name of
// the object and the place in it, so that nothing that a crash leaves gives wrong bytes
// (W8). Nothing is synced: what a crash takes is fetched again. The files take at most
// Options.Size bytes, the least used ones go first (CLOCK). Fetches take at most
// Options.Parallel buffers of one range each (W9). A disk that is full, or that fails,
// means only that ranges are not kept.
//
// Errors: ErrUnreachable is the class of everything that may pass: no answer in time,
// credentials that have expired, a bucket or mount that is not there. An object that is
// shorter than it must be is a *binio.CorruptError that names the object. The package does not
// know what the bytes mean: whoever finds them wrong calls ReadBodyAgain.
//
// A read waits for the store without the turn of its query (package aside), so that it holds up no
// query that needs no store.
//
// All methods are safe for concurrent use. Close waits for what runs; no Object may be
// read after it has begun.
package coldcache
