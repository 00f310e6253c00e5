package config

import (
	"errors"
	"fmt"
	"time"

	"tsdbd/internal/object/place"
	"tsdbd/internal/object/s3"
)

// Cold is about shards whose files are in an object store. Without a URL there is none.
type Cold struct {
	// URL is s3://BUCKET/PREFIX, or a directory as file:///DIR.
	URL string `toml:"url"`
	// Reader is the store of another server: this one reads it, and has no data of its own.
	Reader string `toml:"reader"`
	// Endpoint is the server with the API of S3; empty: Amazon.
	Endpoint  string `toml:"endpoint"`
	Region    string `toml:"region"`
	AccessKey string `toml:"access-key"`
	SecretKey Secret `toml:"secret-key,omitempty"`
	// PathStyle puts the bucket into the path of URLs.
	PathStyle bool `toml:"path-style"`
	// After is how long after its end a shard goes to the store; 0: none does.
	After Duration `toml:"after"`
	// CacheSize bounds the disk space of what queries have read, in CacheDir.
	CacheSize Size   `toml:"cache-size"`
	CacheDir  string `toml:"cache-dir"` // empty: cold-cache in data.dir
	// Timeout is how long a read of the store is tried.
	Timeout Duration `toml:"timeout"`
	// UploadRate bounds the bytes a second; 0: no bound.
	UploadRate Size `toml:"upload-rate"`
	// PurgeAfter is the time in which deleted rows leave the store.
	PurgeAfter Duration `toml:"purge-after"`
	// Grace is how long an object that nobody needs stays.
	Grace Duration `toml:"grace"`
}

func defaultCold() Cold {
	return Cold{
		CacheSize: 10 << 30, Timeout: Duration(30 * time.Second),
		PurgeAfter: Duration(7 * 24 * time.Hour), Grace: Duration(24 * time.Hour),
	}
}

// Place returns where the store is. There is a URL, of a server or a reader.
func (c *Cold) Place() (place.Place, error) {
	key, text := "cold.url", c.URL
	if c.Reader != "" {
		key, text = "cold.reader", c.Reader
	}
	p, err := place.Parse(text)
	if err != nil {
		return p, fmt.Errorf("%s: %w", key, err)
	}
	return p, nil
}

// leastStall is how long a request to a bucket may move no byte at least: a store that has taken an
// upload may think about it for seconds.
const leastStall = 10 * time.Second

// S3 returns how to reach a bucket. Each request is given up before the read is that it is for, so
// that the reason is known. One that gets no answer keeps uploads and sweeps no longer than a read.
func (c *Cold) S3() s3.Options {
	return s3.Options{
		Endpoint: c.Endpoint, Region: c.Region, PathStyle: c.PathStyle, AccessKey: c.AccessKey, SecretKey: c.SecretKey.Reveal(),
		Patience: time.Duration(c.Timeout) / 2, Stall: max(time.Duration(c.Timeout), leastStall),
	}
}

func (c *Cold) check() error {
	if c.URL == "" && c.Reader == "" {
		if c.After != 0 {
			return errors.New("cold.after needs cold.url, the store that old shards go to")
		}
		return nil
	}
	var errs []error
	check := func(ok bool, text string) {
		if !ok {
			errs = append(errs, errors.New(text))
		}
	}
	_, err := c.Place()
	check(c.URL == "" || c.Reader == "", "cold.reader excludes cold.url: a reader has nothing that could go to the store")
	check((c.AccessKey == "") == (c.SecretKey.Reveal() == ""), "cold.access-key and cold.secret-key belong together")
	check(c.After >= 0 && c.UploadRate >= 0, "cold.after and cold.upload-rate must not be negative")
	check(c.CacheSize >= 16<<20, "cold.cache-size must be at least 16MiB")
	check(c.Timeout >= Duration(time.Second), "cold.timeout must be at least a second")
	check(c.PurgeAfter >= Duration(time.Minute), "cold.purge-after must be at least a minute")
	check(c.Grace >= Duration(time.Minute), "cold.grace must be at least a minute")
	return errors.Join(append(errs, err)...)
}
