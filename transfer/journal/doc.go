// Package journal keeps a list of the finished parts of an import in a file, so that an
// import that was killed continues where it stopped.
//
// The file is text. Its second line says which import it belongs to. Each other line is a
// finished part, with the number of the points that were refused of it, and why:
//
//	tsdbd import journal 2
//	1c291ca3 "from http://old:8086 to http://new:8086"
//	11cede24 "telegraf autogen cpu 0"
//	9140d4b2 "telegraf autogen cpu 1" 3 "field type conflict"
//
// The number at the beginning is the checksum of what follows it, in hexadecimal. Finish returns after
// its line is synced. A line that a crash has torn has no right checksum. It does not
// count, so its part is imported again.
//
// A Journal is safe for concurrent use. Two processes must not use one file at the same
// time. If they do, parts are imported again, and none is skipped that was not finished.
package journal
