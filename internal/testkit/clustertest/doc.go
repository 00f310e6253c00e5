// Package clustertest tests clusters of the real server binary: processes on 127.0.0.1
// that are killed, stopped, cut off from one another, lose their power, have damaged files
// and wrong clocks, while clients write and ask through all of them.
//
// A cluster of a test starts its nodes with package apptest. Nodes reach each other
// through package faulty, if the test asks for it. Workers are the clients: each knows
// what it may find afterwards, on every node. A fault is what happens to a cluster
// meanwhile.
//
// Each test takes seconds and has flags for longer runs; docs/bench/cluster-faults.md
// has the commands and what came out. Faults that need root skip without it.
//
// # Which test has which fault of docs/cluster.md
//
// Every fault is in a test that needs no root, most on file systems in memory that hang
// or fill, and where it can come at any moment in the rounds of TestChaos:
//
//	fault                            tests of make test                                  TestChaos
//	a node is killed or stopped      TestFailover, cluster.TestSilentVoter               kill, stop
//	power failure of all, one back   TestOneNodeIsBack, cluster.TestOneOfThree           power cut
//	nodes are cut off                TestDeposedLeader, replica.TestLeaderCutOff         cut off, cannot send, cannot hear
//	the disk of the leader hangs     replica.TestDiskHangs, TestLeaderWhoseDiskHangs     disk hangs
//	the disk of a server hangs       server.TestDiskHangs
//	a disk is full                   replica.TestFullDisks, TestLeaderWithoutSpace       disk full
//	the disks of most are full       cluster.TestTwoDisksFull, TestMostDisksFull         two disks full
//	a file is damaged or missing     cluster.TestHeals, server.TestClusterDamage         damage, one for each kind of file
//	a damaged node is to lead        cluster.TestDamagedNodeLeads, .TestDamagedAlone     damage, with kills of other rounds
//	ids of series after damage       store.TestIDsAfterDamage, cluster.TestIDsAfterDamage damage of the list of series
//	an entry cannot be applied       cluster.TestPoisonedEntry, replica.TestCannotApply
//	the log is damaged               TestFlippedLog, raftlog.TestFlippedBits, .TestLostPieces damage of the log
//	an old copy of a directory       cluster.TestOldCopy, .TestContradicted              old copy
//	nodes differ                     cluster.TestDiverged
//	clocks                           cluster.TestClockOfLeader, .TestClockOfFollower     clock
//	a cluster is founded             TestFounding, cluster.TestFoundingPowerCuts
//	large writes, late requests      server.TestPassedOn, cluster.TestForwardedLate
package clustertest
