// Package keyblock packs a few dozen neighboring series keys into a page.
//
// A Packer writes the keys in the shortest of several forms, and a Page reads them
// back. The form Columns keeps the parts between commas by columns, if all keys have
// the same number of parts. Most columns hold the same text, one of few texts, or a
// text with a number in it; then a key costs a few bits a tag.
// docs/formats/keyblock.md has the bytes.
//
// The package does not know tags: it cuts at every comma, escaped or not. The bytes
// depend on the keys alone.
package keyblock
