// Package csv reads comma-separated values as lines of line protocol.
//
// Read recognizes the dialect by its first row: InfluxDB's annotated CSV, which
// begins with a row such as "#datatype", the answers of InfluxDB 1.x and tsdbd, whose
// header begins with "name,tags", and plain tables with a header or with Options.Columns.
// Each row becomes one line. Rows of a query result that have one field each become one
// line each, and the server joins the lines of one point.
//
// Guarantees:
//
//   - A row becomes a line that can be stored, or is refused with its line and
//     column. A row is never changed to make it fit.
//   - The types of columns are known before the first row of a table becomes a line,
//     that of a column without values before its first value. They do not change afterwards.
//   - Read of what package sink/csv has written returns the same points, bit for bit, and
//     the databases that they belong to.
//   - No input makes Read panic. Memory is bounded by the longest row, a sample
//     of a table, and a limited number of series and fields.
//
// Rows are taken apart here and not by encoding/csv, which makes a line feed of a line break
// of Windows inside of quotes, so that a string would come back changed; reads a row of any
// length into memory; and does not give the text of a row that is refused.
package csv
