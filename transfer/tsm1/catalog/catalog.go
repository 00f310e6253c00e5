// Package catalog reads what InfluxDB keeps besides points: the catalog (the file meta.db of
// 1.x, also as its backups have it, and as influxd.bolt of 2.x has it), the keys of the series
// of a database (the directory _series), and the fields of a shard (fields.idx and
// fields.idxl). docs/formats/influxdb-tsm1.md describes the bytes. None of them has a checksum:
// a message that cannot be read to its end is damage, and wrong bytes within it are not found.
package catalog

import (
	"cmp"
	"encoding/binary"
	"slices"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"tsdbd/internal/binio"
	"tsdbd/meta"
)

// Catalog is what InfluxDB knows besides points. Databases and policies have their names,
// durations, shard groups, continuous queries, and subscriptions; the ids of databases are
// not set. Users have their bcrypt hashes.
type Catalog struct {
	Databases []*meta.Database
	Users     []*meta.User

	Dropped map[uint64]bool `json:"-"` // shards of groups that were dropped
	Largest uint64          `json:"-"` // number of a shard that was given
}

// Database returns a database by its name, or nil.
func (c *Catalog) Database(name string) *meta.Database {
	i := slices.IndexFunc(c.Databases, func(d *meta.Database) bool { return d.Name == name })
	if i < 0 {
		return nil
	}
	return c.Databases[i]
}

// backupMagic begins a catalog in a backup. The length of the catalog follows in 8 bytes.
const backupMagic = 0x59590101

// Read reads meta.db, also as a backup has it.
func Read(path string) (*Catalog, error) {
	b, err := readBounded(path)
	if err != nil {
		return nil, err
	}
	if len(b) >= 16 && binary.BigEndian.Uint64(b) == backupMagic {
		n := binary.BigEndian.Uint64(b[8:])
		if n > uint64(len(b)-16) {
			return nil, binio.Corruptf(path, 8, "catalog of %d bytes in %d", n, len(b)-16)
		}
		b = b[16 : 16+n]
	}
	c, err := Parse(b)
	return c, binio.InFile(err, path)
}

// Parse reads the message Data of InfluxDB's catalog. A portable backup has it as
// the first field of another message.
func Parse(b []byte) (*Catalog, error) {
	if len(b) == 0 {
		return nil, binio.Corruptf("", 0, "catalog is empty")
	}
	data := b
	err := decode(b, into{1: func(m []byte) error { data = m; return nil }})
	if err != nil {
		return nil, err
	}
	c := &Catalog{}
	whole := false
	err = decode(data, into{
		5: c.parseDatabase,
		6: c.parseUser,
		// It is always there, behind databases and users.
		9: func(n uint64) { whole, c.Largest = true, n },
	})
	if err == nil && !whole {
		err = binio.Corruptf("", int64(len(data)), "the catalog lacks its end, it is cut")
	}
	return c, err
}

// into says where the fields of a message go, by their numbers: into a *string, or to a function
// that takes a number or the bytes of a message.
type into map[protowire.Number]any

// decode reads a message. It passes over fields that are not wanted, or not of the wanted form.
func decode(b []byte, to into) error {
	size := len(b)
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return binio.Corruptf("", -1, "a field at byte %d of %d", size-len(b), size)
		}
		b = b[n:]
		n = protowire.ConsumeFieldValue(number, kind, b)
		if n < 0 {
			return binio.Corruptf("", -1, "the value of field %d at byte %d of %d", number, size-len(b), size)
		}
		value := b[:n]
		b = b[n:]
		var err error
		switch kind {
		case protowire.VarintType:
			if take, ok := to[number].(func(uint64)); ok {
				n, _ := protowire.ConsumeVarint(value)
				take(n)
			}
		case protowire.BytesType:
			text, _ := protowire.ConsumeBytes(value)
			switch to := to[number].(type) {
			case *string:
				*to = string(text)
			case func([]byte) error:
				err = to(text)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) parseDatabase(b []byte) error {
	d := &meta.Database{}
	c.Databases = append(c.Databases, d)
	return decode(b, into{
		1: &d.Name,
		2: &d.DefaultRetentionPolicy,
		3: func(b []byte) error { return c.parsePolicy(b, d) },
		4: func(b []byte) error {
			var q meta.ContinuousQuery
			err := decode(b, into{1: &q.Name, 2: &q.Query})
			d.ContinuousQueries = append(d.ContinuousQueries, q)
			return err
		},
	})
}

func (c *Catalog) parsePolicy(b []byte, d *meta.Database) error {
	rp := &meta.RetentionPolicy{}
	d.RetentionPolicies = append(d.RetentionPolicies, rp)
	err := decode(b, into{
		1: &rp.Name,
		2: func(n uint64) { rp.Duration = time.Duration(n) },
		3: func(n uint64) { rp.ShardGroupDuration = time.Duration(n) },
		4: func(n uint64) { rp.ReplicaN = int(uint32(n)) },
		5: func(b []byte) error { return c.parseGroup(b, rp) },
		6: func(b []byte) error {
			var s meta.Subscription
			err := decode(b, into{1: &s.Name, 2: &s.Mode, 3: func(to []byte) error {
				s.Destinations = append(s.Destinations, string(to))
				return nil
			}})
			rp.Subscriptions = append(rp.Subscriptions, s)
			return err
		},
		7: func(n uint64) { rp.FutureWriteLimit = time.Duration(n) },
		8: func(n uint64) { rp.PastWriteLimit = time.Duration(n) },
	})
	slices.SortStableFunc(rp.ShardGroups, func(a, b *meta.ShardGroup) int { return cmp.Compare(a.Start, b.Start) })
	return err
}

// parseGroup reads a shard group. Of one that was dropped it notes the shards.
func (c *Catalog) parseGroup(b []byte, rp *meta.RetentionPolicy) error {
	g := &meta.ShardGroup{}
	dropped := false
	err := decode(b, into{
		1: func(n uint64) { g.ID = n },
		2: func(n uint64) { g.Start = int64(n) },
		3: func(n uint64) { g.End = int64(n) },
		4: func(n uint64) { dropped = n != 0 },
		5: func(b []byte) error {
			var sh meta.Shard
			err := decode(b, into{1: func(n uint64) { sh.ID = n }})
			g.Shards = append(g.Shards, sh)
			return err
		},
	})
	if !dropped {
		rp.ShardGroups = append(rp.ShardGroups, g)
		return err
	}
	for _, sh := range g.Shards {
		if c.Dropped == nil {
			c.Dropped = map[uint64]bool{}
		}
		c.Dropped[sh.ID] = true
	}
	return err
}

func (c *Catalog) parseUser(b []byte) error {
	u := &meta.User{}
	c.Users = append(c.Users, u)
	return decode(b, into{
		1: &u.Name,
		2: &u.Hash,
		3: func(n uint64) { u.Admin = n != 0 },
		4: func(b []byte) error {
			database, privilege := "", meta.Privilege(0)
			err := decode(b, into{1: &database, 2: func(n uint64) { privilege = meta.Privilege(n) & meta.AllPrivileges }})
			if u.Privileges == nil {
				u.Privileges = map[string]meta.Privilege{}
			}
			u.Privileges[database] = privilege
			return err
		},
	})
}
