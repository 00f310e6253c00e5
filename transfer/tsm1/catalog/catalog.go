// Package catalog reads what InfluxDB 1.x knows besides points: the file meta.db, also as
// its backups have it, and as influxd.bolt of 2.x has it. docs/formats/influxdb-tsm1.md
// describes the bytes. A catalog has no checksum in InfluxDB: a message that cannot be read
// to its end is damage, wrong bytes within it are not found.
package catalog

import (
	"cmp"
	"encoding/binary"
	"os"
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

// maxCatalog bounds the size of a catalog.
const maxCatalog = 1 << 30

// Read reads meta.db, also as a backup has it.
func Read(path string) (*Catalog, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if info.Size() > maxCatalog {
		return nil, binio.Corruptf(path, 0, "catalog of %d bytes", info.Size())
	}
	b, err := os.ReadFile(path)
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
	var inner []byte
	portable := false
	err := fields(b, func(n protowire.Number, f field) error {
		if n == 1 && f.bytes != nil {
			inner, portable = f.bytes, true
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if portable {
		b = inner
	}
	c := &Catalog{}
	whole := false
	err = fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 9: // is always there, behind databases and users
			whole, c.Largest = true, f.number
		case 5:
			d := &meta.Database{}
			c.Databases = append(c.Databases, d)
			return c.parseDatabase(f.bytes, d)
		case 6:
			u := &meta.User{}
			c.Users = append(c.Users, u)
			return parseUser(f.bytes, u)
		}
		return nil
	})
	if err == nil && !whole {
		err = binio.Corruptf("", int64(len(b)), "the catalog lacks its end, it is cut")
	}
	return c, err
}

// field is the value of a field of a message.
type field struct {
	number uint64 // of a varint
	bytes  []byte // of text and of a message
}

// fields calls fn for the fields of a message.
func fields(b []byte, fn func(n protowire.Number, f field) error) error {
	size := len(b)
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return binio.Corruptf("", -1, "catalog: a field at byte %d of %d", size-len(b), size)
		}
		b = b[n:]
		var f field
		switch kind {
		case protowire.VarintType:
			f.number, n = protowire.ConsumeVarint(b)
		case protowire.BytesType:
			if f.bytes, n = protowire.ConsumeBytes(b); n >= 0 && f.bytes == nil {
				f.bytes = []byte{}
			}
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return binio.Corruptf("", -1, "catalog: the value of field %d at byte %d of %d", number, size-len(b), size)
		}
		b = b[n:]
		if err := fn(number, f); err != nil {
			return err
		}
	}
	return nil
}

func (c *Catalog) parseDatabase(b []byte, d *meta.Database) error {
	return fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			d.Name = string(f.bytes)
		case 2:
			d.DefaultRetentionPolicy = string(f.bytes)
		case 3:
			rp := &meta.RetentionPolicy{}
			d.RetentionPolicies = append(d.RetentionPolicies, rp)
			return c.parsePolicy(f.bytes, rp)
		case 4:
			var q meta.ContinuousQuery
			err := fields(f.bytes, func(n protowire.Number, f field) error {
				switch n {
				case 1:
					q.Name = string(f.bytes)
				case 2:
					q.Query = string(f.bytes)
				}
				return nil
			})
			d.ContinuousQueries = append(d.ContinuousQueries, q)
			return err
		}
		return nil
	})
}

func (c *Catalog) parsePolicy(b []byte, rp *meta.RetentionPolicy) error {
	err := fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			rp.Name = string(f.bytes)
		case 2:
			rp.Duration = time.Duration(f.number)
		case 3:
			rp.ShardGroupDuration = time.Duration(f.number)
		case 4:
			rp.ReplicaN = int(uint32(f.number))
		case 5:
			g, deleted, err := parseGroup(f.bytes)
			if !deleted {
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
		case 6:
			s, err := parseSubscription(f.bytes)
			rp.Subscriptions = append(rp.Subscriptions, s)
			return err
		case 7:
			rp.FutureWriteLimit = time.Duration(f.number)
		case 8:
			rp.PastWriteLimit = time.Duration(f.number)
		}
		return nil
	})
	slices.SortStableFunc(rp.ShardGroups, func(a, b meta.ShardGroup) int { return cmp.Compare(a.Start, b.Start) })
	return err
}

func parseGroup(b []byte) (g meta.ShardGroup, deleted bool, err error) {
	err = fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			g.ID = f.number
		case 2:
			g.Start = int64(f.number)
		case 3:
			g.End = int64(f.number)
		case 4:
			deleted = f.number != 0
		case 5:
			var s meta.Shard
			err := fields(f.bytes, func(n protowire.Number, f field) error {
				if n == 1 {
					s.ID = f.number
				}
				return nil
			})
			g.Shards = append(g.Shards, s)
			return err
		}
		return nil
	})
	return g, deleted, err
}

func parseSubscription(b []byte) (s meta.Subscription, err error) {
	err = fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			s.Name = string(f.bytes)
		case 2:
			s.Mode = string(f.bytes)
		case 3:
			s.Destinations = append(s.Destinations, string(f.bytes))
		}
		return nil
	})
	return s, err
}

func parseUser(b []byte, u *meta.User) error {
	return fields(b, func(n protowire.Number, f field) error {
		switch n {
		case 1:
			u.Name = string(f.bytes)
		case 2:
			u.Hash = string(f.bytes)
		case 3:
			u.Admin = f.number != 0
		case 4:
			database, privilege := "", meta.Privilege(0)
			err := fields(f.bytes, func(n protowire.Number, f field) error {
				switch n {
				case 1:
					database = string(f.bytes)
				case 2:
					privilege = meta.Privilege(f.number) & meta.AllPrivileges
				}
				return nil
			})
			if u.Privileges == nil {
				u.Privileges = map[string]meta.Privilege{}
			}
			u.Privileges[database] = privilege
			return err
		}
		return nil
	})
}
