// Package operations has the documents for those who operate a server and for its page:
// Queries what the queries of the last hour have cost, Figures how the server did in the
// last hour, and Rights what the user may do. All are JSON, are read by GET, and are about
// the node that is asked. They may be used concurrently.
package operations
