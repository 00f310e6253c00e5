// Package journal keeps a list of the finished parts of an import in a file, so that an
// import that was killed continues where it stopped.
//
// The file is text. Its first line says which import it belongs to. Each other line is a
// finished part:
//
//	tsdbd import journal 1
//	1c291ca3 "from http://old:8086 to http://new:8086"
//	a7b01e77 "telegraf autogen cpu 0"
//
// The number is the checksum of the quoted text, in hexadecimal. Finish returns after
// its line is synced. A line that a crash has torn has no right checksum. It does not
// count, so its part is imported again.
//
// A Journal is safe for concurrent use. Two processes must not use one file at the same
// time. If they do, parts are imported again, and none is skipped that was not finished.
package journal
