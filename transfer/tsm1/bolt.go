package tsm1

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"go.etcd.io/bbolt"
	berrors "go.etcd.io/bbolt/errors"

	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/transfer/tsm1/catalog"
)

// bucket is a bucket of InfluxDB 2.x.
type bucket struct {
	ID                 string        `json:"id"`
	Name               string        `json:"name"`
	RetentionPeriod    time.Duration `json:"retentionPeriod"`
	ShardGroupDuration time.Duration `json:"ShardGroupDuration"`
}

// mapping says which database and policy of the API of 1.x a bucket is.
type mapping struct {
	ID       string `json:"id"`
	Database string `json:"database"`
	Policy   string `json:"retention_policy"`
	Default  bool   `json:"default"`
	BucketID string `json:"bucketID"`
	OldID    string `json:"bucket_id"` // of the bucket, before 2.0
}

// bucket returns the id of the bucket.
func (m *mapping) bucket() string { return cmp.Or(m.BucketID, m.OldID) }

// boltFile is what influxd.bolt says of buckets.
type boltFile struct {
	buckets  []bucket
	mappings []mapping
	catalog  *catalog.Catalog // databases are named by the ids of buckets
}

// boltPatience is how long the lock of a server on the file is waited for.
const boltPatience = time.Second

// readBolt reads influxd.bolt without changing it.
func readBolt(path string) (f *boltFile, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		// The module trusts the pages of a file.
		if p := recover(); p != nil {
			err = binio.Corruptf(path, -1, "%v", p)
		}
	}()
	db, err := bbolt.Open(path, 0o600, &bbolt.Options{ReadOnly: true, Timeout: boltPatience})
	if errors.Is(err, berrors.ErrTimeout) {
		return nil, fmt.Errorf("%s is locked: %w", path, ErrRunning)
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", path, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	f = &boltFile{catalog: &catalog.Catalog{}}
	err = db.View(func(tx *bbolt.Tx) error {
		buckets := tx.Bucket([]byte("bucketsv1"))
		if buckets == nil {
			return binio.Corruptf(path, -1, "file without buckets, it is not of InfluxDB 2.x")
		}
		if err := each(buckets, &f.buckets); err != nil {
			return fmt.Errorf("buckets of %s: %w", path, err)
		}
		if b := tx.Bucket([]byte("dbrpv1")); b != nil {
			if err := each(b, &f.mappings); err != nil {
				return fmt.Errorf("mappings of %s: %w", path, err)
			}
		}
		if b := tx.Bucket([]byte("dbrpdefaultv1")); b != nil {
			// The document of a mapping stays as it is when another one becomes the default.
			defaults := map[string]bool{}
			if err := b.ForEach(func(_, id []byte) error { defaults[string(id)] = true; return nil }); err != nil {
				return fmt.Errorf("mappings of %s: %w", path, err)
			}
			for i := range f.mappings {
				f.mappings[i].Default = defaults[f.mappings[i].ID]
			}
		}
		if b := tx.Bucket([]byte("v1_tsm1_metadata")); b != nil {
			if data := b.Get([]byte("meta.db")); len(data) > 0 {
				c, err := catalog.Parse(data)
				if err != nil {
					return binio.InFile(err, path)
				}
				f.catalog = c
			}
		}
		return nil
	})
	return f, err
}

// each appends the documents of a bucket of the file. It passes those that are no JSON
// objects.
func each[T any](b *bbolt.Bucket, list *[]T) error {
	return b.ForEach(func(_, v []byte) error {
		if len(v) == 0 || v[0] != '{' {
			return nil
		}
		var t T
		if err := json.Unmarshal(v, &t); err != nil {
			return err
		}
		*list = append(*list, t)
		return nil
	})
}

// place is the database and the policy that a bucket becomes.
type place struct {
	database, policy string
	byDefault        bool // it is the default policy
}

// defaultPolicy is the policy of databases that do not say another one.
const defaultPolicy = "autogen"

// splitBucket returns the place that a name means: "database" or "database/policy".
func splitBucket(name string) place {
	if db, rp, ok := strings.Cut(name, "/"); ok && db != "" && rp != "" {
		return place{database: db, policy: rp}
	}
	return place{database: name, policy: defaultPolicy}
}

// places returns what becomes of the buckets, by id: what names says, what is mapped, or
// their name.
func (f *boltFile) places(names map[string]string) (map[string]place, error) {
	out := map[string]place{}
	for _, b := range f.buckets {
		out[b.ID] = splitBucket(b.Name)
	}
	mapped := map[string]bool{}
	for _, m := range f.mappings {
		id := m.bucket()
		if _, ok := out[id]; ok && m.Database != "" && m.Policy != "" && (!mapped[id] || m.Default) {
			out[id] = place{m.Database, m.Policy, m.Default}
			mapped[id] = true
		}
	}
	for _, key := range slices.Sorted(maps.Keys(names)) {
		id, err := f.bucketID(key)
		if err != nil {
			return nil, err
		}
		out[id] = splitBucket(names[key])
	}
	var bad []string
	for _, b := range f.buckets {
		p := out[b.ID]
		if meta.CheckName(p.database) != nil || meta.CheckName(p.policy) != nil {
			bad = append(bad, fmt.Sprintf("-bucket %s=DATABASE for %q", b.ID, b.Name))
		}
	}
	if len(bad) > 0 {
		return nil, fmt.Errorf("%d buckets have names that a database cannot have, give them other names: %s", len(bad), strings.Join(bad, ", "))
	}
	owner := map[[2]string]string{}
	for id, p := range out {
		at := [2]string{p.database, p.policy}
		if other, ok := owner[at]; ok {
			return nil, fmt.Errorf("buckets %s and %s would both become %s.%s: give one of them another name (-bucket %s=NAME)", min(id, other), max(id, other), p.database, p.policy, max(id, other))
		}
		owner[at] = id
	}
	return out, nil
}

// bucketID returns the id of a bucket that a user has named by its id or its name.
func (f *boltFile) bucketID(key string) (string, error) {
	var ids []string
	for _, b := range f.buckets {
		if b.ID == key {
			return key, nil
		}
		if b.Name == key {
			ids = append(ids, b.ID)
		}
	}
	switch {
	case len(ids) == 1:
		return ids[0], nil
	case len(ids) > 1:
		return "", fmt.Errorf("several buckets have the name %q, name them by their ids: %s", key, strings.Join(ids, ", "))
	case isBucketID(key):
		return key, nil
	}
	return "", fmt.Errorf("there is no bucket %q", key)
}

// renamed returns the catalog with buckets as databases and policies.
func (f *boltFile) renamed(places map[string]place) *catalog.Catalog {
	out := &catalog.Catalog{Dropped: f.catalog.Dropped, Largest: f.catalog.Largest}
	for _, b := range f.buckets {
		p := places[b.ID]
		rp := &meta.RetentionPolicy{Name: p.policy, Duration: b.RetentionPeriod, ShardGroupDuration: b.ShardGroupDuration, ReplicaN: 1}
		if d := f.catalog.Database(b.ID); d != nil && len(d.RetentionPolicies) > 0 {
			of := d.RetentionPolicy(cmp.Or(d.DefaultRetentionPolicy, defaultPolicy))
			if of == nil {
				of = d.RetentionPolicies[0]
			}
			rp.ShardGroups = of.ShardGroups
			rp.ShardGroupDuration = cmp.Or(rp.ShardGroupDuration, of.ShardGroupDuration)
		}
		d := out.Database(p.database)
		if d == nil {
			d = &meta.Database{Name: p.database, DefaultRetentionPolicy: p.policy}
			out.Databases = append(out.Databases, d)
		}
		if p.byDefault {
			d.DefaultRetentionPolicy = p.policy
		}
		d.RetentionPolicies = append(d.RetentionPolicies, rp)
	}
	slices.SortFunc(out.Databases, func(a, b *meta.Database) int { return strings.Compare(a.Name, b.Name) })
	return out
}
