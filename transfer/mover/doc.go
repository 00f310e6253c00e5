// Package mover moves the rows of a Source into a Sink: databases and policies first, then
// the rows part by part, then a comparison of both sides.
//
// A Source says what it has: a Catalog and Parts. A Part is what is noted in the journal,
// counted, and moved as a whole; Open reads its rows as typed runs. A Sink makes what the
// catalog names, takes the rows of a part, and counts what it has. Sources and sinks do not
// know each other. Run connects them, and it alone has the journal, the refused rows, the
// notes, the progress, and the totals.
//
// Guarantees:
//
//   - A row of the source is stored, or counted and kept as refused, or left out with a note
//     (older than the policy keeps, or damaged).
//   - A part is noted in the journal after its rows are durable at the target and its
//     refused rows are synced. So a move that is killed and repeated with its journal
//     loses nothing; a part that was not noted is moved once more, which changes nothing.
//   - What exists at the target stays as it is.
//
// A Source is read by as many goroutines as Options.Workers says, each with parts of its
// own. A Tally belongs to the goroutine that moves its part.
package mover
