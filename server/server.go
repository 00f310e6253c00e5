package server

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"slices"
	"sync/atomic"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tsdbd/backup"
	"tsdbd/cluster"
	"tsdbd/cluster/admin"
	"tsdbd/cold"
	"tsdbd/config"
	"tsdbd/exchange"
	"tsdbd/httpapi"
	"tsdbd/httpapi/boards"
	"tsdbd/httpapi/listener"
	"tsdbd/httpapi/operations"
	"tsdbd/httpapi/redact"
	"tsdbd/internal/body"
	"tsdbd/internal/certificate"
	"tsdbd/meta"
	promql "tsdbd/prom/engine"
	"tsdbd/prom/stored"
	"tsdbd/query"
	"tsdbd/query/admission"
	choose "tsdbd/query/downsample"
	"tsdbd/query/history"
	"tsdbd/query/result"
	"tsdbd/query/show"
	"tsdbd/server/memory"
	"tsdbd/services/continuous"
	"tsdbd/services/downsample"
	"tsdbd/services/recorder"
	"tsdbd/services/scrub"
	"tsdbd/services/subscriber"
	"tsdbd/store"
	"tsdbd/web"
)

// Options is what a server needs in addition to its configuration.
type Options struct {
	Version string
	Notes   []config.Note // on the configuration, to be logged
	// Reload reads the configuration again, when SIGHUP asks for it.
	Reload         func() (*config.Config, []config.Note, error)
	Stdout, Stderr io.Writer // for the welcome and for the log
}

// Server is a node that serves.
type Server struct {
	Options
	config *config.Config // in force
	level  *slog.LevelVar
	log    *slog.Logger
	heap   int64
	// heapSource says what set heap, see memory.Limit.
	heapSource string
	tls        *tls.Config // of all connections
	registry   *prometheus.Registry
	closers    []func() error
	opening    context.Context // of Open

	node         *cluster.Node // nil: a single node
	leading      *leadership
	backups      *backup.Handler
	store        *store.Store
	scrub        *scrub.Service
	cold         *cold.Service // nil: no cold store is set
	unreadable   atomic.Int64  // cold shards while no cold store is set
	subscribers  *subscriber.Service
	guard        *memory.Guard
	engine       engine
	own          writer       // for inputs and what the server itself writes
	clients      writer       // as own, with a limit of the time
	overdue      atomic.Int64 // see writer
	passing      body.Budget  // of what passer and passedHandler hold
	memory       *admission.Memory
	executor     *query.Executor
	promql       *promql.Engine
	past         *history.History
	recorder     *recorder.Service // opened with the services
	continuous   *continuous.Service
	downsample   *downsample.Service
	handler      *httpapi.Handler
	serves       listener.Handler // what listeners serve
	front        *front           // nil: it is no state of a reader
	accessLog    *reopenedFile    // nil without a file of its own
	inputs       inputs
	certificates *certificates // in use
	listeners    []*listener.Server
	diagnostics  atomic.Pointer[[]show.Diagnostic] // the configuration as SHOW DIAGNOSTICS shows it
}

// open opens a node in steps, with the limit of the heap, and what says so. It serves when
// open returns. Each step leaves its closers behind, so that Close, and a step that fails,
// close what is open in reverse order. A node of a cluster may wait for others: ctx ends that.
func open(ctx context.Context, c *config.Config, o Options, heap int64, source string) (*Server, error) {
	s := newServer(ctx, c, o, heap, source)
	for _, step := range []func() error{s.check, s.openNode, s.openStore, s.openQueries, func() error { return s.openAPI(s.health()) }, s.startNode, s.openServices, s.openListeners} {
		if err := step(); err != nil {
			return nil, errors.Join(err, s.Close())
		}
	}
	if s.node != nil {
		s.onClose(s.handOver)
	}
	close(s.leading.opened)
	return s, nil
}

// newServer returns a server with nothing open.
func newServer(ctx context.Context, c *config.Config, o Options, heap int64, source string) *Server {
	s := &Server{Options: o, config: c, heap: heap, heapSource: source, level: new(slog.LevelVar), registry: prometheus.NewRegistry(), opening: ctx, leading: newLeadership()}
	s.level.Set(slog.Level(c.Log.Level))
	s.log = logger(c.Log.Format, o.Stderr, s.level)
	s.certificates = &certificates{log: s.log}
	return s
}

// Close closes everything in reverse order. Requests under way get the time of
// http.stop-timeout to finish.
func (s *Server) Close() error {
	var errs []error
	for _, f := range slices.Backward(s.closers) {
		errs = append(errs, f())
	}
	s.closers = nil
	return errors.Join(errs...)
}

// onClose has f called by Close, before all that was opened earlier is closed.
func (s *Server) onClose(f func() error) { s.closers = append(s.closers, f) }

// quiet is a closer that cannot fail.
func quiet(f func()) func() error { return func() error { f(); return nil } }

// URL returns where clients find the server.
func (s *Server) URL() string {
	if s.config.HTTP.HTTPSEnabled {
		return "https://" + s.listeners[0].Addr()
	}
	return "http://" + s.listeners[0].Addr()
}

// check finds what is wrong with the configuration before anything is opened.
func (s *Server) check() (err error) {
	c := s.config
	for _, n := range s.Notes {
		s.log.Log(context.Background(), n.Level, "setting is InfluxDB's", "key", n.Key, "note", n.Text)
	}
	s.log.Info("opening", "version", s.Version, "path", c.DataPath(), "memory", s.heap, "source", s.heapSource)
	if s.tls, err = c.TLS.Parse(); err != nil {
		return err
	}
	return errors.Join(checkDir(c), tryListen(c))
}

// storeOptions returns the options of the store of a single node.
func (s *Server) storeOptions() store.Options {
	c := s.config
	interval := time.Duration(c.Retention.CheckInterval)
	if !c.Retention.Enabled {
		interval = -1
	}
	return store.Options{
		Logger:            s.log,
		SyncInterval:      time.Duration(c.Data.WALSyncInterval),
		SegmentBytes:      int64(c.Data.WALSegmentSize),
		LogBytes:          int64(c.Data.WALMaxSize),
		CacheBytes:        int64(c.Data.CacheMaxMemory),
		Exemplars:         c.Prometheus.MaxExemplars,
		FlushBytes:        int64(c.Data.FlushSize),
		FlushIdle:         time.Duration(c.Data.FlushIdle),
		CompactAfter:      time.Duration(c.Data.CompactAfter),
		Limits:            storeLimits(c),
		SeriesTableBytes:  int64(c.Data.SeriesMemory),
		RetentionInterval: interval,
		RetentionWait:     time.Duration(c.Retention.WaitForDownsamples),
	}
}

// openStore opens the store with what keeps it.
func (s *Server) openStore() error {
	c := s.config
	o := s.storeOptions()
	if s.node != nil {
		// Retention runs where the node leads.
		o.OpenLog, o.LogAfter, o.Follower, o.RetentionInterval = s.node.OpenLog, s.node.LogAfter(), true, -1
	}
	kept, err := s.openCold(&o)
	if err != nil {
		return err
	}
	if s.store, err = store.Open(c.Data.Dir, o); err != nil {
		return err
	}
	s.keepCold(kept)
	return s.serveStore()
}

// serveStore puts around the open store what all writes go through: the guard of the
// memory and the copies to subscribers.
func (s *Server) serveStore() error {
	c := s.config
	s.onClose(s.store.Close)
	trust, err := c.Subscriber.TLS(s.tls)
	if err != nil {
		return err
	}
	s.scrub = scrub.New(scrub.Options{
		Store: s.store, Dir: c.Data.Dir, Interval: time.Duration(c.Data.ScrubInterval), Log: s.node == nil, Heals: s.node != nil, Logger: s.log,
	})
	s.subscribers = subscriber.New(subscriber.Options{
		Catalog: s.store.Catalog, Logger: s.log, Timeout: time.Duration(c.Subscriber.HTTPTimeout), TLS: trust,
		Concurrency: c.Subscriber.WriteConcurrency, QueueLength: c.Subscriber.WriteBufferSize,
	})
	s.onClose(quiet(s.subscribers.Close))
	if c.Subscriber.Enabled && s.front == nil {
		s.subscribers.Start()
	}
	s.memory = admission.NewMemory(int64(c.Query.MaxTotalMemory))
	s.guard = memory.NewGuard(memory.GuardOptions{
		Limit: s.heap, Logger: s.log, Short: s.memory.SetShort, Flush: s.store.FlushSoon, Queries: s.memory.Used,
	})
	s.onClose(quiet(s.guard.Close))
	s.engine = engine{Store: s.store, subscribers: s.subscribers, cores: admission.NewCores(0)}
	if s.node != nil {
		s.engine.long, s.engine.waits = time.Duration(c.Cluster.ElectionTimeout), s.node.WriteWaits
	}
	s.own = writer{engine: s.engine, guard: s.guard, log: s.log, overdue: &s.overdue}
	s.passing.SetLimit(int64(c.HTTP.MaxBodyMemory))
	s.clients = s.own
	s.clients.limit = time.Duration(c.HTTP.WriteTimeout)
	s.registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		s.store, s.subscribers, s.guard, s.scrub, s.certificates, s.buildInfo())
	return nil
}

// openQueries makes what runs statements: for clients and, once services start,
// for continuous queries and downsamples.
func (s *Server) openQueries() error {
	c := s.config
	s.showConfig()
	unused := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "tsdbd_query_downsample_unused_total", Help: "Ranges of queries whose rows are lost although a downsample has them.",
	})
	s.registry.MustRegister(unused)
	s.past = history.New(redact.Query)
	s.executor = query.New(query.Options{
		Storage: s.engine, Admin: s.clients.admin(), Logger: s.log, WithoutPolicy: !c.Meta.RetentionAutocreate,
		Statistics:     s.statistics,
		Diagnostics:    s.allDiagnostics,
		Servers:        s.servers,
		UseDownsamples: c.Query.UseDownsamples, CompleteUntil: s.store.Touched().Until, Unused: unused.Inc,
		Downsamples: func() map[uint64]show.Progress { return s.downsample.Progress() },
		Limits:      queryLimits(c), Memory: s.memory, Cores: s.engine.cores, Into: s.engine.writeInto,
		Ended: s.past.Add,
	})
	s.promql = promql.New(promql.Options{
		Storage: s.engine, Exemplars: s.store, Queries: s.executor.Queries(), Memory: s.memory, Cores: s.engine.cores, Logger: s.log, Limits: promqlLimits(c),
		Downsamples: s.downsamples, Unused: unused.Inc,
	})
	catchUp := time.Duration(c.Continuous.CatchUp)
	if catchUp == 0 {
		catchUp = -1 // 0 in the configuration is not at all
	}
	s.continuous = continuous.New(continuous.Options{
		Catalog: s.store.Catalog, Logger: s.log,
		Save: func(ctx context.Context, runs []meta.QueryRun) error {
			return s.store.Apply(ctx, meta.SetContinuousRuns{Runs: runs})
		},
		Interval: time.Duration(c.Continuous.RunInterval), LogRuns: c.Continuous.LogEnabled, CatchUp: catchUp,
		Execute: func(ctx context.Context, db string, q *influxql.Query) error {
			return runContinuous(ctx, s.executor, db, q)
		},
	})
	s.downsample = downsample.New(downsample.Options{
		Catalog: s.store.Catalog, Storage: s.engine, Marks: s.store.Touched(), Applied: s.store.Applied, Logger: s.log,
		Execute: func(ctx context.Context, db string, q *influxql.Query, rows func(*result.Series) error) error {
			return executeRows(ctx, s.executor, db, q, rows)
		},
		Write:    s.engine.writeBatches,
		Delete:   s.store.Delete,
		Complete: func(ctx context.Context, cmd meta.CompleteWindows) error { return s.store.Apply(ctx, cmd) },
		Memory:   s.memory,
		Sizes: func() map[[2]string]downsample.Size {
			sizes := map[[2]string]downsample.Size{}
			for _, sh := range s.store.Figures().Shards {
				policy := [2]string{sh.Database, sh.RetentionPolicy}
				have := sizes[policy]
				sizes[policy] = downsample.Size{Rows: have.Rows + sh.Rows, Bytes: have.Bytes + sh.DiskBytes}
			}
			return sizes
		},
	})
	s.registry.MustRegister(s.continuous, s.downsample)
	return nil
}

// downsamples returns what may stand for samples in PromQL.
func (s *Server) downsamples(use choose.Use) stored.Downsamples {
	if use == choose.Off {
		return nil
	}
	return &choose.Chooser{Use: s.config.Query.UseDownsamples, Asked: use, Catalog: s.store.Catalog(), Now: time.Now(), Until: s.store.Touched().Until}
}

// openAPI makes the handler of requests and opens its log.
func (s *Server) openAPI(health httpapi.Health) (err error) {
	c := s.config
	b := backup.HandlerOptions{Dir: c.Data.Dir, Logger: s.log}
	if s.cold != nil {
		b.Cold = s.cold.Objects()
	}
	s.backups = backup.NewHandler(s.store, b)
	s.onClose(quiet(s.backups.Close))
	o := httpapi.Options{
		Mounts: s.mounts(), Cluster: s.apiCluster(), Boards: boards.New(boards.Options{Catalog: s.store.Catalog, Apply: s.clients.admin().Apply, Registry: s.registry}),
		Writer: s.clients, Query: s.executor, PromQL: s.promql, Delete: s.clients.admin().Delete, Memory: s.memory, Explorer: s.executor, Health: health, Catalog: s.store,
		Registry: s.registry, Logger: s.log, Version: s.Version, Limits: httpLimits(c),
		AuthEnabled: c.HTTP.AuthEnabled, PingAuth: c.HTTP.PingAuthEnabled, AllowedOrigins: c.HTTP.AllowedOrigins, AllowedHosts: c.HTTP.AllowedHosts,
		Realm: c.HTTP.Realm, SharedSecret: c.HTTP.SharedSecret.Reveal(), Pprof: c.HTTP.PprofEnabled, Bind: c.HTTP.BindAddress,
	}
	if o.Machine, err = os.Hostname(); err != nil {
		s.log.Warn("the name of the machine is unknown", "err", err)
	}
	if o.AccessLogStatus, err = c.HTTP.StatusFilter(); err != nil {
		return err
	}
	if o.Headers, err = c.HTTP.Header(); err != nil {
		return err
	}
	switch {
	case c.HTTP.AccessLog && c.HTTP.AccessLogPath != "":
		if s.accessLog, err = openReopened(c.HTTP.AccessLogPath); err != nil {
			return err
		}
		s.onClose(s.accessLog.Close)
		o.AccessLog = logger(c.Log.Format, s.accessLog, slog.LevelInfo)
	case c.HTTP.AccessLog:
		o.AccessLog = s.log
	}
	s.handler = httpapi.New(o)
	s.serves = s.handler
	s.onClose(quiet(s.handler.Close))
	return nil
}

// mounts returns the handlers of other packages.
func (s *Server) mounts() []httpapi.Mount {
	all := []httpapi.Mount{
		{Prefix: exchange.PathPrefix, Name: "admin", Access: httpapi.AdminOnly, Handler: s.backups},
		{Prefix: scrub.Path, Name: "admin", Access: httpapi.AdminOnly, Handler: s.scrub},
		{Prefix: exchange.PathPrefix + "define", Name: "admin", Access: httpapi.AdminOnly, Handler: s.backups, Place: query.Leader},
		{Prefix: operations.QueriesPath, Name: "queries", Access: httpapi.LoggedIn, Serve: operations.Queries(s.past)},
		{Prefix: operations.RightsPath, Name: "rights", Access: httpapi.LoggedIn, Serve: operations.Rights(s.config.HTTP.AuthEnabled)},
		{Prefix: operations.FiguresPath, Name: "figures", Access: httpapi.AdminOnly, Handler: http.HandlerFunc(s.figures)},
	}
	if s.cold != nil {
		all = append(all, httpapi.Mount{Prefix: cold.Path, Name: "admin", Access: httpapi.AdminOnly, Handler: s.cold})
	}
	if s.config.HTTP.UIEnabled {
		page := web.New()
		all = append(all,
			httpapi.Mount{Prefix: "/", Name: "ui", Access: httpapi.Open, Handler: page},
			httpapi.Mount{Prefix: web.AssetPrefix, Name: "ui", Access: httpapi.Open, Handler: page},
		)
		for _, path := range web.LinkPaths {
			all = append(all, httpapi.Mount{Prefix: path, Name: "ui", Access: httpapi.Open, Reads: true, Handler: http.HandlerFunc(web.Link)})
		}
	}
	if s.node != nil {
		all = append(all, httpapi.Mount{Prefix: admin.Prefix, Name: "cluster", Access: httpapi.AdminOnly, Handler: s.node.Handler()})
	}
	return all
}

// openServices opens the inputs and starts what writes on its own.
func (s *Server) openServices() (err error) {
	c := s.config
	if s.inputs, err = openInputs(c, s.inputWriter(), s.tls, s.log); err != nil {
		return err
	}
	s.onClose(func() error { return closeTogether(time.Duration(c.HTTP.StopTimeout), s.inputs) })
	s.registry.MustRegister(s.inputs.metrics())
	s.certificates.add("inputs", s.inputs.certificates()...)
	if err := s.openRecorder(); err != nil {
		return err
	}
	s.runs("scrub", s.scrub.Run)
	if s.cold != nil {
		s.runs("keeping the cold store", s.cold.Run)
	} else {
		s.runs("the look for cold shards", s.lookForCold)
	}
	if s.node == nil {
		s.leading.begin(context.Background(), s.lead)
		s.onClose(quiet(s.leading.close))
	}
	return nil
}

// openListeners opens the address and, if it is on, the unix socket.
func (s *Server) openListeners() error {
	c := s.config
	warnOfOpenDoors(c, s.log)
	var encrypted *tls.Config
	if c.HTTP.HTTPSEnabled {
		pair, err := certificate.Load(certificate.Files{Certificate: c.HTTP.HTTPSCertificate, Key: c.HTTP.HTTPSPrivateKey})
		if err != nil {
			return err
		}
		s.certificates.add("api", pair)
		encrypted = pair.Server(s.tls)
	}
	for _, o := range listenerOptions(c, encrypted) {
		o.Logger = s.log
		l, err := listener.Listen(s.serves, o)
		if err != nil {
			return errors.Join(err, closeTogether(time.Duration(c.HTTP.StopTimeout), s.listeners))
		}
		s.listeners = append(s.listeners, l)
	}
	s.onClose(func() error {
		err := closeTogether(time.Duration(c.HTTP.StopTimeout), s.listeners)
		s.log.Info("no longer serving")
		return err
	})
	if c.HTTP.UnixSocketEnabled {
		s.log.Info("serving", "path", c.HTTP.BindSocket)
	}
	return nil
}

// closeTogether closes at the same time what shares a timeout.
func closeTogether[T interface {
	Close(ctx context.Context) error
}](timeout time.Duration, all []T,
) error {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	failures := make(chan error, len(all))
	for _, one := range all {
		go func() { failures <- one.Close(ctx) }()
	}
	var errs []error
	for range all {
		errs = append(errs, <-failures)
	}
	return errors.Join(errs...)
}
