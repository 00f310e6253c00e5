package httpapi

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tsdbd/httpapi/boards"
	"tsdbd/httpapi/promapi"
	"tsdbd/httpapi/throttle"
	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/model/scan"
	"tsdbd/prom/engine"
	"tsdbd/query"
	"tsdbd/query/admission"
)

// InfluxVersion is the value of X-Influxdb-Version. Clients choose features by it
// and expect 1.x. X-Tsdbd-Version has the server's own version.
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
	// Write returns nil when all points are durable. After a point.PartialWrite
	// all points that it does not count are. An error that is point.Temporary may
	// be tried again. Behind a point.OverdueError the batch is still in use. Rows at
	// point.NoTime get the time of the write.
	Write(ctx context.Context, db, rp string, batch *point.Batch) error
	// WriteExemplars returns how many exemplars of series that the database has are kept
	// or were before, and how many are older than what it has of their series.
	WriteExemplars(ctx context.Context, db string, list []model.Exemplar) (kept, older int, err error)
}

// Cataloger has the databases and the users.
type Cataloger interface {
	// Catalog returns the present catalog.
	Catalog() *meta.Data
}

// Health reports whether the server can do its work, with a message.
type Health interface {
	Health() (ok bool, message string)
	// Degraded reports whether damage has taken points that nobody has given up, so
	// that queries fail.
	Degraded() bool
}

// Mount is a handler of another package for a part of the paths. The Handler
// counts, logs and admits the requests, and sets the headers of every answer.
type Mount struct {
	// Prefix is the beginning of the paths, such as /ui/. Without a final slash, and
	// if it is /, Prefix is the only path. The longest prefix wins.
	Prefix string
	// Name is the label of the mount in metrics.
	Name string
	// Access says who may send requests.
	Access  Access
	Handler http.Handler
	// Serve takes the place of Handler. It gets the user, nil if logins are not required.
	Serve func(w http.ResponseWriter, r *http.Request, user *meta.User)
	// Reads says that no request changes anything, whatever its method: web pages of others may send it.
	Reads bool
	// Place is the node of a cluster that answers. 0: the one that the client asked.
	Place query.Place
}

// DefaultWriteWait is the longest time that a write waits for its turn.
const DefaultWriteWait = 30 * time.Second

// DefaultMaxBodySize is InfluxDB's limit of a request body in bytes, and
// DefaultMaxBodyMemory that of the bodies held at a time.
const (
	DefaultMaxBodySize   = 25_000_000
	DefaultMaxBodyMemory = 512 << 20
)

// DefaultPrometheusDatabase is the database of requests to Prometheus' API that name
// none.
const DefaultPrometheusDatabase = "prometheus"

// Options configure a Handler. Writer and Query must be set.
type Options struct {
	Writer Writer
	Query  Querier
	// Memory is charged for queries and their answers; nil: it has no bound.
	Memory *admission.Memory
	Health Health // nil: always healthy
	// PromQL answers Prometheus' HTTP API. nil: there is no such API.
	PromQL *engine.Engine
	// Explorer and Catalog answer /api/v1/status/tsdb. Without one of them there
	// is no such route.
	Explorer promapi.Explorer
	// Delete deletes rows, for Prometheus' API.
	Delete func(ctx context.Context, req scan.DeleteRequest) error
	// Cluster is the node of a cluster that the Handler serves. nil: a single node.
	Cluster Cluster
	// Catalog has the users and the databases. If it is nil, there are no
	// /api/v2/buckets, and AuthEnabled must not be set.
	Catalog Cataloger
	// Boards answers /api/boards. nil: there is no such route.
	Boards *boards.API
	// Mounts are the handlers of other packages.
	Mounts []Mount

	// Registry receives the tsdbd_http_* metrics, and /metrics shows it. If it is
	// nil, there is no /metrics.
	Registry *prometheus.Registry
	// Logger receives messages for the operator. nil: slog.Default().
	Logger *slog.Logger
	// AccessLog receives a line per request. nil: none.
	AccessLog *slog.Logger
	// AccessLogStatus selects the answers that AccessLog contains. nil: all.
	AccessLogStatus func(status int) bool
	// AllowedOrigins are the origins, such as https://grafana.example.org, whose
	// pages may use the API in a browser; "*": all. nil: none.
	AllowedOrigins []string
	// AllowedHosts are names of the server, and Machine is that of the machine, see
	// browser.Options.
	AllowedHosts []string
	Machine      string
	// Headers are set in every answer. Headers of the API replace them.
	Headers http.Header
	// Version is the server's own version.
	Version string

	// AuthEnabled requires a login of a user of the catalog for every route except
	// /ping, /status, and /health.
	AuthEnabled bool
	// CheckPassword reports whether a stored hash belongs to a password. nil:
	// meta.CheckPassword.
	CheckPassword func(hash, password string) bool
	// Realm is part of every request for a login. "": DefaultRealm.
	Realm string
	// SharedSecret is the key of bearer tokens. "": tokens are refused.
	SharedSecret string
	// PingAuth requires a login for /ping, /status and /health too.
	PingAuth bool

	// Pprof opens /debug/pprof.
	Pprof bool
	// Bind is the address of the listener in statistics.
	Bind string

	Limits
}

// Limits are the options that Handler.SetLimits changes while it serves.
type Limits struct {
	// MaxRowLimit is the number of rows of an answer that is not chunked. 0: no
	// limit.
	MaxRowLimit int
	// MaxBodySize bounds a body in bytes, as received and decompressed.
	// 0: DefaultMaxBodySize; negative: no bound.
	MaxBodySize int64
	// MaxBodyMemory bounds the bytes of all bodies at a time. Requests that exceed
	// it are answered with 503. 0: DefaultMaxBodyMemory.
	MaxBodyMemory int64
	// MaxConcurrentWrites bounds the write requests in flight; 0 is no bound.
	// MaxWaitingWrites more wait for WriteWait at most, 0: DefaultWriteWait. Other
	// requests are answered with 503.
	MaxConcurrentWrites int
	MaxWaitingWrites    int
	WriteWait           time.Duration
	// MaxQuerySize bounds the text of a query in bytes. 0: DefaultMaxQuerySize.
	MaxQuerySize int
	// PositionWait bounds how long a request waits until a node of a cluster has
	// caught up. 0: DefaultPositionWait.
	PositionWait time.Duration
	// PrometheusDatabase is the database of requests to Prometheus' API that name
	// none. The first write creates it. "": DefaultPrometheusDatabase.
	PrometheusDatabase string
}

func (o *Options) setDefaults() {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.CheckPassword == nil {
		o.CheckPassword = meta.CheckPassword
	}
	o.Realm = cmp.Or(o.Realm, DefaultRealm)
	o.Version = cmp.Or(o.Version, "unknown")
}

// SetLimits replaces the limits for requests from now on. Calls must not overlap.
// Writes in flight do not count against new limits of writes.
func (h *Handler) SetLimits(l Limits) {
	l.MaxBodySize = max(0, cmp.Or(l.MaxBodySize, DefaultMaxBodySize))
	l.MaxBodyMemory = cmp.Or(max(0, l.MaxBodyMemory), DefaultMaxBodyMemory)
	l.MaxQuerySize = cmp.Or(max(0, l.MaxQuerySize), DefaultMaxQuerySize)
	l.WriteWait = cmp.Or(max(0, l.WriteWait), DefaultWriteWait)
	l.PrometheusDatabase = cmp.Or(l.PrometheusDatabase, DefaultPrometheusDatabase)
	l.PositionWait = cmp.Or(max(0, l.PositionWait), DefaultPositionWait)
	h.bodies.SetLimit(l.MaxBodyMemory)
	was := h.limits.Swap(&l)
	if was == nil || was.MaxConcurrentWrites != l.MaxConcurrentWrites || was.MaxWaitingWrites != l.MaxWaitingWrites || was.WriteWait != l.WriteWait {
		h.writes.Store(throttle.New(l.MaxConcurrentWrites, l.MaxWaitingWrites, l.WriteWait))
	}
}
