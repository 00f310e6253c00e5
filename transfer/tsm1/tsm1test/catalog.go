package tsm1test

import (
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// Message builds a message of protobuf.
type Message []byte

// Number appends a number.
func (m Message) Number(field protowire.Number, v uint64) Message {
	return protowire.AppendVarint(protowire.AppendTag(m, field, protowire.VarintType), v)
}

// Text appends a text.
func (m Message) Text(field protowire.Number, s string) Message {
	return protowire.AppendString(protowire.AppendTag(m, field, protowire.BytesType), s)
}

// With appends a message.
func (m Message) With(field protowire.Number, inner Message) Message {
	return m.Text(field, string(inner))
}

// Group is a shard group with one shard.
func Group(id, start, end, deleted int64) Message {
	return Message{}.Number(1, uint64(id)).Number(2, uint64(start)).Number(3, uint64(end)).Number(4, uint64(deleted)).With(5, Message{}.Number(1, uint64(id)))
}

// Policy is a policy of a day's groups.
func Policy(name string, groups ...Message) Message {
	m := Message{}.Text(1, name).Number(2, uint64(48*time.Hour)).Number(3, uint64(24*time.Hour)).Number(4, 1)
	for _, g := range groups {
		m = m.With(5, g)
	}
	return m
}

// Database is a database with policies.
func Database(name, byDefault string, policies ...Message) Message {
	m := Message{}.Text(1, name).Text(2, byDefault)
	for _, p := range policies {
		m = m.With(3, p)
	}
	return m
}

// Catalog has a database db with a policy rp, whose group 7 is there and whose group 8
// was dropped.
func Catalog() Message {
	rp := Policy("rp", Group(7, -1000, 1e6, 0), Group(8, 1e6, 2e6, 5)).
		With(6, Message{}.Text(1, "sub").Text(2, "ANY").Text(3, "http://a").Text(3, "http://b"))
	db := Database("db", "rp", rp).With(4, Message{}.Text(1, "cq").Text(2, "CREATE CONTINUOUS QUERY"))
	user := Message{}.Text(1, "ann").Text(2, "$2a$10$hash").Number(3, 1).With(4, Message{}.Text(1, "db").Number(2, 3))
	return Message{}.Number(1, 1).Number(2, 9).Number(3, 77).With(5, db).With(6, user).Number(9, 8)
}
