// Package shell asks a server over HTTP and shows the answers in a terminal: one
// statement, those of an input, or a prompt with history and completion.
//
// A Session has the settings that statements depend on, such as the database, and
// runs one line at a time (Session.Line): a command of the shell, such as USE or \d,
// or statements for the server. Answers arrive in chunks and are written as they
// come (answer, formatter). PromQL is asked by Prometheus' API, and its answers become
// the same tables (promql.go). Session.Run reads an input and finds where its statements end. The context of a line ends its statement at the server.
package shell
