// Package golden holds the requests and answers recorded from InfluxDB 1.12
// (testdata, a file per theme) for the tests of several packages, and compares
// answers by the rules of the recording.
//
// Package query answers the statements in process, over storages that cut
// their data in different ways; cmd/tsdbd answers every theme over HTTP.
//
// testdata/siblings.json holds further cases of the themes, with answers of
// InfluxDB 1.6.7.
//
// testdata/differences.json lists the cases that are answered otherwise on
// purpose, with the reason and, except for the order of rows of equal time, our
// answer. A listed case that does not differ any more fails the test. Its entry with a
// kind instead of a case is about all cases: messages that say why a result is empty.
package golden
