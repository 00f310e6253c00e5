// Package deps pins modules while the packages that use them are being written.
package deps

import (
	_ "github.com/BurntSushi/toml"
	_ "github.com/RoaringBitmap/roaring/v2"
	_ "github.com/blevesearch/vellum"
	_ "github.com/blevesearch/vellum/regexp"
	_ "github.com/cespare/xxhash/v2"
	_ "github.com/cockroachdb/pebble/v2/vfs"
	_ "github.com/cockroachdb/pebble/v2/vfs/errorfs"
	_ "github.com/dgryski/go-tsz"
	_ "github.com/golang/snappy"
	_ "github.com/influxdata/influxql"
	_ "github.com/influxdata/line-protocol/v2/lineprotocol"
	_ "github.com/jwilder/encoding/simple8b"
	_ "github.com/klauspost/compress/gzip"
	_ "github.com/klauspost/compress/zstd"
	_ "github.com/prometheus/client_golang/prometheus"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/prometheus/client_golang/prometheus/testutil"
	_ "golang.org/x/sys/unix"
)
