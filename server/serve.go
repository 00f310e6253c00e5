package server

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
	"time"

	"github.com/influxdata/influxql"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"tsdbd/backup"
	"tsdbd/config"
	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/server/memory"
	"tsdbd/services/continuous"
	"tsdbd/services/monitor"
	"tsdbd/services/subscriber"
	"tsdbd/store"
	"tsdbd/transfer"
)

// Options is what a server needs in addition to its configuration.
type Options struct {
	Version string
	Notes   []config.Note // on the configuration, to be logged
	// Reload reads the configuration again, when SIGHUP asks for it.
	Reload         func() (*config.Config, []config.Note, error)
	Stdout, Stderr io.Writer // for the welcome and for the log
}

// Serve opens everything, serves until ctx ends, and closes everything in
// reverse order.
func Serve(ctx context.Context, c *config.Config, o Options) (err error) {
	if err := checkDir(c); err != nil {
		return err
	}
	level := new(slog.LevelVar)
	level.Set(slog.Level(c.Log.Level))
	log := logger(c.Log.Format, o.Stderr, level)
	encrypted, err := c.TLS.Parse()
	if err != nil {
		return err
	}
	certificate, err := loadCertificate(c)
	if err != nil {
		return err
	}
	shards := meta.ShardDurations{
		DayFrom: time.Duration(c.Retention.DayShardsFrom), WeekFrom: time.Duration(c.Retention.WeekShardsFrom),
	}
	interval := time.Duration(c.Retention.CheckInterval)
	if !c.Retention.Enabled {
		interval = -1
	}
	heap, source := memory.Limit()
	debug.SetMemoryLimit(heap)
	if c := memory.NewCollector(heap); c != nil {
		ctx, stop := context.WithCancel(context.Background())
		defer stop()
		go c.Watch(ctx)
	}
	for _, n := range o.Notes {
		log.Log(ctx, n.Level, "setting is InfluxDB's", "key", n.Key, "note", n.Text)
	}
	log.Info("opening", "version", o.Version, "path", c.DataPath(), "memory", heap, "source", source)
	if err := tryListen(c); err != nil {
		return err
	}
	begin := time.Now()
	st, err := store.Open(c.Data.Dir, store.Options{
		Logger:           log,
		SyncInterval:     time.Duration(c.Data.WALSyncInterval),
		SegmentBytes:     int64(c.Data.WALSegmentSize),
		LogBytes:         int64(c.Data.WALMaxSize),
		CacheBytes:       int64(c.Data.CacheMaxMemory),
		FlushBytes:       int64(c.Data.FlushSize),
		FlushIdle:        time.Duration(c.Data.FlushIdle),
		CompactAfter:     time.Duration(c.Data.CompactAfter),
		Limits:           storeLimits(c),
		SeriesTableBytes: min(heap/8, 256<<20),
		Shards:           shards, RetentionInterval: interval,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.Close()) }()

	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), st)
	trust, err := c.Subscriber.TLS(encrypted)
	if err != nil {
		return err
	}
	subscribers := subscriber.New(subscriber.Options{
		Catalog: st.Catalog, Logger: log, Timeout: time.Duration(c.Subscriber.HTTPTimeout), TLS: trust,
		Concurrency: c.Subscriber.WriteConcurrency, QueueLength: c.Subscriber.WriteBufferSize,
		TotalBytes: int64(c.Subscriber.TotalBufferBytes),
	})
	registry.MustRegister(subscribers)
	if c.Subscriber.Enabled {
		subscribers.Start()
	}
	defer subscribers.Close()
	cores := admission.NewCores(0)
	eng := engine{st, subscribers, cores}
	queries := admission.NewMemory(int64(c.Query.MaxTotalMemory))
	guard := &memory.Guard{Limit: heap, Log: log, Short: queries.SetShort, Flush: st.FlushSoon}
	guard.Register(registry, queries.Used)
	watchCtx, stopWatch := context.WithCancel(context.Background())
	watching := make(chan struct{})
	go func() { defer close(watching); guard.Watch(watchCtx) }()
	defer func() { stopWatch(); <-watching }()
	var statistics statisticSources
	var inForce settingsInForce
	inForce.set(c)
	executor := query.New(query.Options{
		Storage: eng, Admin: eng, Logger: log, ShardDurations: shards,
		Statistics:  statistics.read,
		Diagnostics: func() []query.Diagnostic { return append(damageDiagnostic(st), *inForce.tables.Load()...) },
		Limits:      queryLimits(c), Memory: queries, Cores: cores, Into: eng.writeInto,
	})
	catchUp := time.Duration(c.Continuous.CatchUp)
	if catchUp == 0 {
		catchUp = -1 // the file's 0 is not at all
	}
	periodic := continuous.New(continuous.Options{
		Catalog: st.Catalog, Logger: log, Dir: c.Data.Dir,
		Interval: time.Duration(c.Continuous.RunInterval), LogRuns: c.Continuous.LogEnabled, CatchUp: catchUp,
		Execute: func(ctx context.Context, db string, q *influxql.Query) error {
			return runContinuous(ctx, executor, db, q)
		},
	})
	registry.MustRegister(periodic)
	if c.Continuous.Enabled {
		periodic.Start()
	}
	defer periodic.Close()
	admin := backup.NewHandler(st, backup.HandlerOptions{Dir: c.Data.Dir, Logger: log})
	defer admin.Close()
	self := selfWriter{guarded{eng, guard}, shards}
	if c.Monitor.StoreEnabled {
		host, err := os.Hostname()
		if err != nil {
			log.Warn("the monitor's points get no hostname", "err", err)
		}
		own := monitor.Start(monitor.Options{
			Writer: self, Statistics: executor.Statistics, Logger: log, Hostname: host,
			Database: c.Monitor.StoreDatabase, Interval: time.Duration(c.Monitor.StoreInterval),
		})
		defer own.Close()
	}
	receiving, err := openInputs(c, self, encrypted, log)
	if err != nil {
		return err
	}
	defer func() {
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(c.HTTP.StopTimeout))
		defer cancel()
		err = errors.Join(err, receiving.close(stopCtx))
	}()
	registry.MustRegister(receiving.metrics())
	options := httpapi.Options{
		Mounts: []httpapi.Mount{{Prefix: transfer.PathPrefix, Name: "admin", Access: httpapi.AdminOnly, Handler: admin}},
		Writer: guarded{eng, guard}, Query: executor, Memory: queries, Explorer: executor, Health: st, Registry: registry, Logger: log, Version: o.Version,
		Limits: httpLimits(c),
	}
	options.AuthEnabled, options.PingAuth, options.Catalog = c.HTTP.AuthEnabled, c.HTTP.PingAuthEnabled, st
	options.AllowedOrigins = c.HTTP.AllowedOrigins
	options.Realm, options.SharedSecret = c.HTTP.Realm, c.HTTP.SharedSecret.Reveal()
	options.Pprof, options.Bind = c.HTTP.PprofEnabled, c.HTTP.BindAddress
	warnOfOpenDoors(c, log)
	var accessLog *reopenedFile
	switch {
	case c.HTTP.AccessLog && c.HTTP.AccessLogPath != "":
		if accessLog, err = openReopened(c.HTTP.AccessLogPath); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, accessLog.Close()) }()
		options.AccessLog = logger(c.Log.Format, accessLog, slog.LevelInfo)
	case c.HTTP.AccessLog:
		options.AccessLog = log
	}
	options.SuppressWriteLog = c.HTTP.SuppressWriteLog
	if options.AccessLogStatus, err = c.HTTP.StatusFilter(); err != nil {
		return err
	}
	if options.Headers, err = c.HTTP.Header(); err != nil {
		return err
	}
	handler := httpapi.New(options)
	statistics.set(
		func() []query.Statistic { return writeStatistics(handler.Statistics(), subscribers) },
		receiving.statistics,
		func() []query.Statistic { return storeStatistics(st) },
		func() []query.Statistic { return []query.Statistic{continuousStatistic(periodic)} },
		func() []query.Statistic { return subscriberStatistics(subscribers) },
	)
	defer handler.Close()
	servers, err := listen(c, handler, certificate, encrypted, log)
	if err != nil {
		return err
	}
	defer func() {
		// ctx has ended; requests get time of their own.
		stopCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Duration(c.HTTP.StopTimeout))
		defer cancel()
		err = errors.Join(err, closeAll(stopCtx, servers))
		log.Info("no longer serving")
	}()
	hangup := make(chan os.Signal, 1)
	signal.Notify(hangup, syscall.SIGHUP)
	defer signal.Stop(hangup)
	address := servers[0].Addr()
	log.Info("serving", "address", address, "tls", certificate != nil, "auth", c.HTTP.AuthEnabled, "took", time.Since(begin))
	welcome(o, c, urlOf(c, address), st.Catalog())
	tell := func(state string) {
		if err := notify(os.Getenv("NOTIFY_SOCKET"), state); err != nil {
			log.Warn("supervisor not told", "err", err)
		}
	}
	tell("READY=1")
	defer tell("STOPPING=1")
	stopped := servers[len(servers)-1].Done() // the socket's, or the only one's
	r := &reloader{
		current: c, read: o.Reload, certificates: receiving.certificates(), accessLog: accessLog, log: log, level: level,
		setLimits: func(c *config.Config) {
			inForce.set(c)
			st.SetLimits(storeLimits(c))
			executor.SetLimits(queryLimits(c))
			queries.SetLimit(int64(c.Query.MaxTotalMemory))
			handler.SetLimits(httpLimits(c))
		},
	}
	if certificate != nil {
		r.certificates = append(r.certificates, certificate)
	}
	for {
		select {
		case <-ctx.Done():
			log.Info("stopping", "err", context.Cause(ctx))
			return nil
		case <-hangup:
			r.reload()
		case <-servers[0].Done():
			return nil // its failure comes from Close
		case <-stopped:
			return nil
		}
	}
}

// welcome tells where the server is, and whoever starts from nothing what to
// type next.
func welcome(o Options, c *config.Config, url string, catalog *meta.Data) {
	w := o.Stdout
	fmt.Fprintf(w, "tsdbd %s listens on %s\n", o.Version, url)
	switch {
	case c.HTTP.AuthEnabled && !catalog.AdminExists():
		fmt.Fprintf(w, `Logins are on and there is no administrator yet. Whoever is first makes one:

  curl -X POST '%s/query' --data-urlencode "q=CREATE USER admin WITH PASSWORD '...' WITH ALL PRIVILEGES"
`, url)
	case !c.HTTP.AuthEnabled && len(catalog.Databases) == 0:
		fmt.Fprintf(w, `There is no data yet in %[2]s. In another terminal, try:

  curl -X POST '%[1]s/query' --data-urlencode 'q=CREATE DATABASE demo'
  curl -X POST '%[1]s/write?db=demo' --data-binary 'weather,city=oslo temperature=-3.5'
  curl -G '%[1]s/query' --data-urlencode 'db=demo' --data-urlencode 'q=SELECT * FROM weather'

Ctrl-C stops the server. tsdbd help tells what else there is.
`, url, c.DataPath())
	}
}
