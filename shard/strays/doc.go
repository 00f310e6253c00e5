// Package strays finds the files of a shard that its manifest does not name. It removes
// those with which nothing is lost, and moves the others to quarantine.
package strays
