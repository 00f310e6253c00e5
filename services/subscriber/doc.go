// Package subscriber copies writes to the destinations of subscriptions, as line
// protocol over HTTP or UDP.
//
// The write path calls Encode before it stores a batch, and Send with the result
// after the store has accepted the batch. Encode returns nil if the retention policy
// has no subscription; that costs a map lookup. Send adds the text to the queue of
// each subscription of the retention policy and never waits.
//
// Each subscription has Concurrency goroutines that send the texts of its queue. In
// mode ALL they send to every destination. In mode ANY they send to one destination
// in turn, and to the next one if that fails.
//
// Update compares the catalog with the running subscriptions. The Service calls it
// every CheckInterval, so a new subscription takes effect within that time.
//
// # Guarantees
//
//   - A write never waits for a destination. If a queue is full, the text is dropped
//     and counted. The number and the bytes of texts in a queue are bounded, and so
//     are the bytes in all queues.
//   - A text is sent at most once. If Concurrency is 1, the texts of a subscription
//     are sent in the order of Send. A restart loses the queues.
//   - All points of a request are copied, including points that the store refuses
//     (field type conflicts), as in InfluxDB.
//   - UDP packets end at the end of a line and have at most 64 KiB minus headers. A
//     longer line is dropped and counted.
//
// A Service is safe for concurrent use.
package subscriber
