// Package lineproto reads InfluxDB's line protocol into a point.Batch.
//
// A Parser reads a body with the point.Table of its database and a precision, and
// appends one row per line. It reads a common line in one pass. It guesses the series:
// the one that followed the series of the previous line last time, or else a hash of
// the raw bytes "measurement,tags". It expects the fields of the previous line of that
// series, and reads numbers eight digits at a time. All other lines, and all lines
// with an error, go to the slow path, which follows the rules of InfluxDB 1.x exactly,
// including the texts of errors. Both paths give the same result for a line that both
// can read.
//
// Line and Lines cut text into lines, by the rule that the Parser follows.
//
// # Guarantees
//
//   - A batch keeps nothing of the body.
//   - A layout never has a field key twice. The last value on the line wins.
//   - All spellings of a tag set give the same *point.Series.
//   - No input makes a Parser panic. The work is linear in the length of the body.
//
// # Intended differences from InfluxDB 1.12
//
//   - Unsigned integers are always accepted.
//   - A quote in a comment does not hide the following lines.
//   - An empty field key is also refused after a tab.
//   - A point with a field key that begins with a tab or a zero byte is refused: line
//     protocol could not give it back (model.UnstorableField).
//   - A float that is NaN or infinite is accepted as 0x and the 16 hexadecimal digits
//     of its bits, and in no other form.
//   - Fields that InfluxDB's two readings of a line disagree about (a backslash before
//     a separator, outside of keys and strings) are "invalid field format".
//
// # Limits of the package
//
// The store checks what needs the state of the database: existing field types, tags
// and fields named time, strings longer than column.MaxStringLength, and limits. The
// parser refuses only strings that a batch cannot represent, names that line protocol
// cannot give back, and contradictory fields of one line. Names may have control
// characters and bytes that are not UTF-8.
//
// One goroutine at a time uses a Parser. Any number of them share a table.
package lineproto
