// Package model holds the nouns every other package speaks: field types,
// series keys and tags, time ranges and tag predicates. It imports nothing of
// ours and holds no state; everything in it may be used concurrently.
package model
