// Package series gives the series keys of a database their ids.
//
// A File maps canonical series keys to ids and back. Claim hands out ids in
// memory, and Confirm makes them final: the owner has the series in its log by then.
// Sync appends the confirmed keys to a log of compressed blocks. A mapped index
// file, which is derived from the log, finds ids by the fingerprint of a key.
//
// Invariants. A confirmed id never gets another key, in spite of crashes and damage: the
// owner notes Given elsewhere, and gives it to Reserve at the next opening. Each
// block and page has a CRC32C (W8), and damage is a *binio.CorruptError. A log of
// another database is an identity.ErrForeign and stays as it is. An index file
// lives until its last reader releases it (W6). The ids and keys of damaged blocks
// can be given back by Restore, from the keys in data files and the write-ahead
// log.
//
// The package does not know which series a shard has; tsi does. It keeps no
// goroutines. A File may be used by many goroutines.
package series
