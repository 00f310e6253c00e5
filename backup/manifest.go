package backup

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"time"

	"tsdbd/exchange"
	"tsdbd/internal/binio"
	"tsdbd/meta"
	"tsdbd/shard/manifest"
)

// manifestVersion is the version of a backup's manifest.
const manifestVersion = 3

// Manifest says what a backup consists of.
type Manifest struct {
	Version  int             `json:"version"`
	Created  time.Time       `json:"created"`
	Program  string          `json:"program,omitempty"` // the version of tsdbd that took it, for people
	Sequence uint64          `json:"sequence"`          // the log position it is consistent with
	Filter   exchange.Filter `json:"filter"`
	// Session is the server's, while the backup is being taken.
	Session string `json:"session,omitempty"`
	// Catalog names the chosen databases, policies and shards, and all users.
	Catalog *meta.Data      `json:"catalog"`
	Shards  []ShardManifest `json:"shards"`
	Series  []SeriesLog     `json:"series"`
	// Damaged are files that were damaged on the server and are left out. The
	// bytes of their shards' manifests still name them, so that a server on
	// the restored directory finds them missing and says so.
	Damaged []DamagedFile `json:"damaged,omitempty"`
	// Objects holds the SHA-256 of each object that the backup names, in hex;
	// set when it is complete.
	Objects map[string]string `json:"objects,omitempty"`
}

// ShardManifest is one shard of a backup.
type ShardManifest struct {
	ID       uint64 `json:"id"`
	Database uint32 `json:"database"`
	Manifest []byte `json:"manifest"` // the bytes of its MANIFEST
	Files    []File `json:"files"`
}

// File is a file of a shard and where its content is.
type File struct {
	Name   string `json:"name"`
	Object Object `json:"object"`
	// Cold says that the server had only the tail of the file. The object is the whole file.
	Cold bool `json:"cold,omitempty"`
}

// DamagedFile is a file of a shard that a backup lacks.
type DamagedFile struct {
	Shard    uint64 `json:"shard"`
	Database string `json:"database"`
	Name     string `json:"name"`
	Reason   string `json:"reason"`
}

// leaveOut takes an object out of the manifest and notes whose it was. It
// returns false for a piece of a series log, without which nothing is whole.
func (m *Manifest) leaveOut(name string, why error) bool {
	found := false
	for i := range m.Shards {
		s := &m.Shards[i]
		s.Files = slices.DeleteFunc(s.Files, func(f File) bool {
			if f.Object.Name != name {
				return false
			}
			found = true
			m.Damaged = append(m.Damaged, DamagedFile{s.ID, m.Catalog.DatabaseByID(s.Database).Name, f.Name, why.Error()})
			return true
		})
	}
	return found
}

// SeriesLog is a database's series log, in pieces.
type SeriesLog struct {
	Database uint32   `json:"database"`
	Given    uint64   `json:"given"` // all ids that were given are below, also those that the log lacks
	Pieces   []Object `json:"pieces"`
}

// Object is content, named by what it is: equal names mean equal bytes.
type Object struct {
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// objectName is what names of objects look like, for they become file names.
var objectName = regexp.MustCompile(`^[0-9a-f]{16}-[0-9a-f]+(-[0-9a-f]+){0,4}\.(tsm|tsi|series)$`)

func tsmObject(f *manifest.File) Object { return Object{f.Object(), f.Size} }

func tsiObject(f *manifest.File) Object {
	return Object{fmt.Sprintf("%016x-%x.tsi", f.Checksum, f.Size), f.Size}
}

func seriesObject(hash uint64, size int64) Object {
	return Object{fmt.Sprintf("%016x-%x.series", hash, size), size}
}

// checksum returns the content hash in an object's name.
func (o Object) checksum() (sum uint64) {
	_, _ = fmt.Sscanf(o.Name, "%16x", &sum)
	return sum
}

// objects returns every object once.
func (m *Manifest) objects() []Object { return objectsOf(m.Series, m.Shards) }

// objectsOf returns every object of some logs and shards once.
func objectsOf(logs []SeriesLog, shards []ShardManifest) []Object {
	seen := map[string]bool{}
	var out []Object
	add := func(o Object) {
		if !seen[o.Name] {
			seen[o.Name] = true
			out = append(out, o)
		}
	}
	for _, s := range logs {
		for _, p := range s.Pieces {
			add(p)
		}
	}
	for _, s := range shards {
		for _, f := range s.Files {
			add(f.Object)
		}
	}
	return out
}

// check refuses a manifest that cannot be used; names become paths.
func (m *Manifest) check() error {
	if m.Catalog == nil {
		return errors.New("backup without a catalog")
	}
	for _, o := range m.objects() {
		if !objectName.MatchString(o.Name) || o.Size < 0 {
			return fmt.Errorf("backup names a strange object %q", o.Name)
		}
	}
	for _, s := range m.Shards {
		if m.Catalog.DatabaseByID(s.Database) == nil {
			return fmt.Errorf("backup has shard %d of an unknown database", s.ID)
		}
		for _, f := range s.Files {
			if path.Base(f.Name) != f.Name || f.Name == "." || f.Name == ".." || f.Name == "/" {
				return fmt.Errorf("backup names a strange file %q", f.Name)
			}
		}
	}
	return nil
}

// manifestMagic begins the first line of a manifest file; the SHA-256 of what
// follows that line is behind it.
const manifestMagic = "tsdbd-backup 1 "

// Encode returns the bytes of the manifest's file.
func (m *Manifest) Encode() ([]byte, error) {
	b, err := json.MarshalIndent(m, "", " ")
	if err != nil {
		return nil, fmt.Errorf("encode backup manifest: %w", err)
	}
	return sealed(b), nil
}

// sealed puts the first line before a manifest's JSON.
func sealed(body []byte) []byte {
	sum := sha256.Sum256(body)
	return append([]byte(manifestMagic+hex.EncodeToString(sum[:])+"\n"), body...)
}

// Decode returns the manifest in the bytes of a file, which name names in errors.
func Decode(name string, b []byte) (*Manifest, error) {
	head, body, ok := bytes.Cut(b, []byte("\n"))
	want, magic := bytes.CutPrefix(head, []byte(manifestMagic))
	if !ok || !magic {
		return nil, binio.Corruptf(name, 0, "not a backup's manifest")
	}
	if sum := sha256.Sum256(body); hex.EncodeToString(sum[:]) != string(want) {
		return nil, binio.Corruptf(name, 0, "manifest checksum mismatch")
	}
	var of struct {
		Version uint64 `json:"version"`
	}
	if err := json.Unmarshal(body, &of); err != nil {
		return nil, binio.Corruptf(name, int64(len(head)+1), "%v", err)
	}
	if err := binio.CheckVersion(name, "backup", of.Version, manifestVersion); err != nil {
		return nil, err
	}
	m := new(Manifest)
	if err := json.Unmarshal(body, m); err != nil {
		return nil, binio.Corruptf(name, int64(len(head)+1), "%v", err)
	}
	// The catalog's own reader checks it and makes it usable.
	data, err := meta.Copy(m.Catalog)
	if err != nil {
		return nil, binio.Corruptf(name, int64(len(head)+1), "catalog: %v", err)
	}
	m.Catalog = data
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return m, nil
}

// Bytes returns the size of all objects of the backup.
func (m *Manifest) Bytes() int64 { return sizeOf(m.objects()) }

func sizeOf(objects []Object) (n int64) {
	for _, o := range objects {
		n += o.Size
	}
	return n
}

// owner names the file and the shard of an object, for messages.
func (m *Manifest) owner(name string) string {
	for _, s := range m.Shards {
		for _, f := range s.Files {
			if f.Object.Name == name {
				return fmt.Sprintf("%s of shard %d", f.Name, s.ID)
			}
		}
	}
	return "series log"
}
