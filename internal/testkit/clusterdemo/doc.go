// Command clusterdemo runs a cluster of three nodes on 127.0.0.1 under a light
// load, and shows what happens: make cluster.
//
// The page of each second has the addresses and processes of the nodes, the output
// of tsdbd cluster status, and whether every acknowledged point is found on every
// node. A node that is killed starts again a few seconds later. The data is in a
// directory that is removed at the end.
package main
