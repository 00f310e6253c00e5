// Package lineproto reads InfluxDB's line protocol into point.Batch.
//
// A Parser takes a body, the database's point.Table and the precision, and
// appends a row per line. The common line is read in one pass: its series is
// guessed (the one that followed the previous line's series last time, else by
// a hash of the raw bytes "measurement,tags"), its fields are expected to be
// those of the series' previous line, and numbers are read eight digits at a
// time. Every other line, and every line at fault, goes to the slow path,
// which follows the rules of InfluxDB 1.x to the letter, in the texts of its
// errors too. Both give the same result for a line that both read; what the
// fast path does not recognise it leaves to the slow one.
//
// Invariants: a batch keeps nothing of the body. Layouts never hold a field
// key twice (the last value on the line wins). Every spelling of a tag set
// gives the same *point.Series. No input makes a parser panic, or work more
// than linearly in the length of the body.
//
// Differences from InfluxDB 1.12, on purpose: unsigned integers are always
// accepted; a quote in a comment does not swallow the lines behind it; an
// empty field key is refused also behind a tab; a point with a name that cannot
// be stored (model.UnstorableText) is refused; fields that InfluxDB's two
// readings of a line disagree about (a backslash before a separator, outside
// of keys and strings) are "invalid field format".
//
// What needs the database's state is left to the store: field types already
// known, tags and fields named time, strings beyond column.MaxStringLength,
// limits. The parser only refuses strings that a batch cannot represent, names
// that are not UTF-8 or contain control characters, and fields that contradict
// themselves on one line.
//
// A Parser is used by one goroutine at a time; a table is shared by any number
// of them.
package lineproto
