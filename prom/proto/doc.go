// Package proto reads protobuf messages in place: the requests of remote write and read,
// and those of OTLP.
//
//	r := proto.Read(message)
//	for r.Next() {
//		switch r.Field { ... }
//	}
//	return r.Err
//
// A Reader knows no schema: the caller looks at the number of a Member and takes what it
// needs. Its data refers to the message; nothing is copied.
//
// The package has no state.
package proto
