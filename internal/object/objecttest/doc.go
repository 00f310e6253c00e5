// Package objecttest tests stores of objects: Contract is what every object.Store must
// do, and Server is a server with the API of S3 that can be made to fail.
package objecttest
