// Package admission decides what a query may use of the process, whatever its
// language. Start admits a query if not too many run, and registers it for SHOW
// QUERIES and KILL. Memory and Account bound the bytes that queries hold. Cores
// and Turn share the processor between queries and writes. Guard turns panics and
// faults in mapped files into errors.
//
// # Guarantees
//
//   - The context of a query ends when the query is killed or times out, and its
//     cause is the reason.
//   - Bytes are charged to an Account before they are taken (W9). While memory is
//     short, small queries still run.
//   - A goroutine that waits for a client, for memory, or for another goroutine
//     does so outside its turn (Turn.Outside), so that it holds up no other query.
//   - Writes never wait for a turn.
//
// All types are safe for concurrent use, except a Stopper, which belongs to one
// goroutine.
package admission
