package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/query/admission"
)

// InfluxVersion is what X-Influxdb-Version says: clients choose features by
// it and want a 1.x. Our own version goes out as X-Tsdbd-Version.
const InfluxVersion = "1.8.10"

// Writer stores points.
type Writer interface {
	// Table returns the database's table of series for the parser, or
	// meta.ErrDatabaseNotFound.
	Table(db string) (*point.Table, error)
	// RetentionPolicy returns the name of the policy that writes to rp go to
	// ("" is the database's default), or meta.ErrDatabaseNotFound or
	// meta.ErrRetentionPolicyNotFound.
	RetentionPolicy(db, rp string) (string, error)
	// Write returns nil when all points are durable. An error that has
	// PartialWrite() (reason string, dropped int) says that all others are;
	// one that is Temporary() may be tried again.
	Write(ctx context.Context, db, rp string, batch *point.Batch) error
}

// Cataloger knows the databases and who may log in.
type Cataloger interface {
	// Catalog returns the present catalog.
	Catalog() *meta.Data
}

// Health tells whether the server can do its work, and in words how it is.
type Health interface {
	Health() (ok bool, message string)
}

// Mount serves a part of the paths by a handler of another package. The Handler
// counts, logs and admits its requests, and sets the headers of every answer.
type Mount struct {
	// Prefix is what the paths begin with, such as /ui/. Without a final slash it
	// is a path. The longest prefix wins.
	Prefix string
	// Name is the label of the mount in metrics.
	Name string
	// Access says who may send requests.
	Access  Access
	Handler http.Handler
}

// DefaultMaxBodySize is InfluxDB's limit of a request body in bytes, and
// DefaultMaxBodyMemory that of the bodies held at a time.
const (
	DefaultMaxBodySize   = 25_000_000
	DefaultMaxBodyMemory = 512 << 20
)

// Options configure a Handler. Writer and Query must be set.
type Options struct {
	Writer Writer
	Query  Querier
	// Memory is charged for queries and their answers; nil: it has no bound.
	Memory *admission.Memory
	Health Health // nil: always well
	// Explorer answers /api/v1/status/tsdb, with Catalog; nil: there is no such route.
	Explorer Explorer
	// Catalog has the users and the databases. nil: there are no /api/v2/buckets,
	// and AuthEnabled must not be set.
	Catalog Cataloger
	// Mounts are the handlers of other packages.
	Mounts []Mount

	// Registry takes the tsdbd_http_* metrics and is what /metrics shows. nil:
	// no metrics, and /metrics is not there.
	Registry *prometheus.Registry
	// Logger receives what the operator must know. nil: slog.Default().
	Logger *slog.Logger
	// AccessLog receives a line per request. nil: none.
	AccessLog *slog.Logger
	// AccessLogStatus says of which answers AccessLog tells, nil: of all.
	AccessLogStatus func(status int) bool
	// SuppressWriteLog leaves writes out of AccessLog.
	SuppressWriteLog bool
	// AllowedOrigins are the origins, such as https://grafana.example.org, whose
	// pages may read answers in a browser; "*": all. nil: none.
	AllowedOrigins []string
	// Headers go with every answer. Those of the API's own win.
	Headers http.Header
	// Version is the server's own version.
	Version string

	// AuthEnabled makes every route but /ping and /health take the login of a
	// user of the catalog.
	AuthEnabled bool
	// CheckPassword reports whether a stored hash is of a password; nil:
	// meta.CheckPassword.
	CheckPassword func(hash, password string) bool
	// Realm is named where a login is asked for. "": DefaultRealm.
	Realm string
	// SharedSecret is the key of bearer tokens. "": there are none.
	SharedSecret string
	// PingAuth makes /ping, /status and /health take a login too.
	PingAuth bool

	// Pprof opens /debug/pprof.
	Pprof bool
	// Bind is the address that statistics name as the listener's.
	Bind string

	Limits
}

// Limits are the options that Handler.SetLimits changes while it serves.
type Limits struct {
	// MaxRowLimit cuts answers that are not chunked. 0: no limit.
	MaxRowLimit int
	// MaxBodySize bounds a body in bytes, as received and decompressed.
	// 0: DefaultMaxBodySize; negative: no bound.
	MaxBodySize int64
	// MaxBodyMemory bounds the bytes of all bodies held at a time; requests
	// beyond it are answered 503. 0: DefaultMaxBodyMemory.
	MaxBodyMemory int64
	// MaxConcurrentWrites bounds the write requests in flight. MaxWaitingWrites
	// more wait, for WriteWait at most; what is beyond is answered 503. 0: no
	// bound; none wait; DefaultWriteWait.
	MaxConcurrentWrites int
	MaxWaitingWrites    int
	WriteWait           time.Duration
	// MaxQuerySize bounds the text of a query in bytes. 0: DefaultMaxQuerySize.
	MaxQuerySize int
	// WriteTracing logs the line protocol of every write, at the level info.
	WriteTracing bool
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Realm == "" {
		o.Realm = DefaultRealm
	}
	if o.CheckPassword == nil {
		o.CheckPassword = meta.CheckPassword
	}
	if o.Version == "" {
		o.Version = "unknown"
	}
}

// SetLimits brings other limits into force, for requests from now on. Calls
// must not overlap. Writes under way do not count against new limits of writes.
func (h *Handler) SetLimits(l Limits) {
	switch {
	case l.MaxBodySize == 0:
		l.MaxBodySize = DefaultMaxBodySize
	case l.MaxBodySize < 0:
		l.MaxBodySize = 0
	}
	if l.MaxBodyMemory <= 0 {
		l.MaxBodyMemory = DefaultMaxBodyMemory
	}
	if l.MaxQuerySize <= 0 {
		l.MaxQuerySize = DefaultMaxQuerySize
	}
	if l.WriteWait <= 0 {
		l.WriteWait = DefaultWriteWait
	}
	h.bodies.SetLimit(l.MaxBodyMemory)
	was := h.limits.Swap(&l)
	if was == nil || was.MaxConcurrentWrites != l.MaxConcurrentWrites || was.MaxWaitingWrites != l.MaxWaitingWrites || was.WriteWait != l.WriteWait {
		h.writes.Store(newThrottle(l.MaxConcurrentWrites, l.MaxWaitingWrites, l.WriteWait))
	}
}
