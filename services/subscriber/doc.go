// Package subscriber copies writes to the destinations of the catalog's
// subscriptions, as line protocol over HTTP or UDP.
//
// The write path asks Encode for the text of a batch before the store gets it
// (nil when nobody has subscribed: that costs a map look-up), and hands the
// text to Send when the points are stored. Send puts it into the queue of each
// subscription of the retention policy and never waits. Each subscription has
// Concurrency goroutines that take texts from its queue and send them: mode ALL to
// every destination, ANY to one, in turn, and to the next if that fails.
//
// Update compares the catalog with what runs; the service calls it itself every
// second, so a subscription takes effect within that time.
//
// # What holds
//
//   - A write never waits for a destination. What a full queue cannot take is
//     dropped and counted; a queue is bounded in entries and in bytes, all
//     of them together in bytes.
//   - Texts of one subscription are sent at most once, and in the order of Send if
//     Concurrency is 1; nothing is kept over a restart.
//   - All points of a request are copied, those that the store refuses one by
//     one (a conflict of types) included, as InfluxDB does.
//   - UDP packets end at a line's end and hold at most 64 KiB less headers; a
//     longer line is dropped and counted.
//
// A Service is safe for concurrent use.
package subscriber
