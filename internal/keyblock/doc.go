// Package keyblock packs a few dozen series keys that stand next to each other
// by columns: the parts between commas, of which all keys must have as many.
// Most columns hold the same text, one of few, or a text with a number in it;
// then a key costs some bits a tag. docs/formats/keyblock.md has the bytes.
//
// It knows nothing of tags: parts are cut at every comma, escaped or not. What
// comes out depends on what goes in alone.
package keyblock
