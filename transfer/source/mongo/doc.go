// Package mongo reads the documents of a time-series collection of MongoDB, as mongoexport
// writes them, as lines of line protocol.
//
// The input is one document after the other, in lines, over several lines, or in one JSON
// array, in MongoDB's Extended JSON, relaxed or canonical, of version 2 or 1. The time
// comes from the member Options.Time, tags from the member Options.Meta, and all other
// members are fields. Members of documents in documents have names with dots, and elements
// of arrays have their number in place of a name. The member _id is left out.
//
// MongoDB has no types of fields, and tsdbd has one for each. The first documents decide:
// a field of integers and doubles is a float. What does not fit later is refused.
//
// Guarantees:
//
//   - A document becomes a line that can be stored, or is refused with its line. A document is
//     never stored in part, and an integer becomes a float only if the float is equal.
//   - What has no JSON costs its own lines only: reading continues with the next document.
//   - No input makes Read panic. Memory is bounded by the longest document, a sample,
//     and a limited number of fields.
//
// Documents are taken apart here and not by encoding/json, which cannot go on behind a text
// that is no JSON, replaces bytes that are not UTF-8, and of two members with one name takes the
// last (TestBytes).
package mongo
