// Package metadata keeps what senders say about metrics: the type, the help text,
// and the unit.
//
// An Entry is a row of Measurement in the retention policy of the samples: the tag
// "metric" and the strings "type", "help" and "unit". Append makes the row. A sender
// repeats an entry all the time, so Recent says which entries were not written within
// this hour. Senders may say different things about a metric: Read returns all entries of
// its rows of the last two hours.
//
// The package does no input and output of its own. Recent and Read are safe for
// concurrent use.
package metadata
