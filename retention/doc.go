// Package retention ages data: it drops shard groups whose retention policy
// has run out, and makes the next group of active policies before it is needed,
// so that no write has to wait for the catalog at a group's end.
//
// Start runs two loops until Close: each CheckInterval the expiry loop looks
// for groups with Expired, each precreateInterval the other loop looks for
// groups that end within precreateAdvance. Both change the
// catalog through the store, which removes the files of what is dropped.
//
// Invariant: a group is dropped only when two checks found it expired with at
// least CheckInterval of monotonic time and no jump of the wall clock between
// them, so a clock that jumps ahead and is set right within that time deletes
// nothing. The store refuses to drop a group as long as a downsample has windows to
// compute from it or from older ones. How long a group has waited for that follows from the catalog
// (WaitsSince), so it is the same for each leader and after a restart.
//
// The rules that give groups their durations and bounds live in package meta,
// because the catalog applies them. A Service is safe for concurrent use.
package retention
