package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"time"

	"tsdbd/config"
	"tsdbd/internal/certificate"
	"tsdbd/lineproto"
	"tsdbd/model"
	"tsdbd/query/show"
	"tsdbd/services/input"
	"tsdbd/services/input/collectd"
	"tsdbd/services/input/graphite"
	"tsdbd/services/input/opentsdb"
	"tsdbd/services/input/udp"
)

// openInput is an input that receives.
type openInput struct {
	kind, bind string
	protocol   string // tcp or udp, of kinds that can be either
	// certificate is nil without TLS.
	certificate *certificate.Pair
	service
}

// service is what all kinds of inputs are.
type service interface {
	Addr() net.Addr
	Counts() *input.Counts
	Statistics() map[string]any
	Close(ctx context.Context) error
}

type inputs []openInput

// openInputs opens all inputs that are on, or none. encrypted is how connections
// are where they are.
func openInputs(c *config.Config, w input.Writer, encrypted *tls.Config, log *slog.Logger) (all inputs, err error) {
	open := func(kind string, in *config.Input, listen func(input.Options) (openInput, error)) {
		if err != nil || !in.Enabled {
			return
		}
		name := log.With("input", kind, "address", in.BindAddress)
		var o openInput
		o, err = listen(input.Options{
			Writer: w, Logger: name, Database: in.Database, RetentionPolicy: in.RetentionPolicy,
			BatchSize: in.BatchSize, BatchPending: in.BatchPending, BatchTimeout: time.Duration(in.BatchTimeout),
		})
		if err != nil {
			err = fmt.Errorf("open %s input: %w", kind, err)
			return
		}
		o.kind, o.bind = kind, in.BindAddress
		all = append(all, o)
		log.Info("receiving", "input", kind, "address", o.Addr().String(), "db", in.Database, "rp", in.RetentionPolicy)
	}
	for i := range c.UDP {
		u := &c.UDP[i]
		open("udp", &u.Input, func(o input.Options) (openInput, error) {
			unit, err := lineproto.Unit(u.Precision, false)
			if err != nil {
				return openInput{}, err
			}
			s, err := udp.Listen(udp.Options{Options: o, Address: u.BindAddress, ReadBuffer: u.ReadBuffer.Int(), Unit: unit})
			return openInput{service: s}, err
		})
	}
	for i := range c.Graphite {
		g := &c.Graphite[i]
		open("graphite", &g.Input, func(o input.Options) (openInput, error) {
			opt := g.Options()
			opt.Options = o
			s, err := graphite.Listen(opt)
			return openInput{service: s, protocol: g.Protocol}, err
		})
	}
	for i := range c.Collectd {
		d := &c.Collectd[i]
		open("collectd", &d.Input, func(o input.Options) (openInput, error) {
			opt, err := collectdOptions(d, log)
			if err != nil {
				return openInput{}, err
			}
			opt.Options = o
			s, err := collectd.Listen(opt)
			return openInput{service: s}, err
		})
	}
	for i := range c.OpenTSDB {
		t := &c.OpenTSDB[i]
		open("opentsdb", &t.Input, func(o input.Options) (openInput, error) {
			opt := opentsdb.Options{Options: o, Address: t.BindAddress, LogPointErrors: t.LogPointErrors, BodyMemory: int64(c.HTTP.MaxBodyMemory)}
			var pair *certificate.Pair
			if t.TLSEnabled {
				var err error
				if pair, err = certificate.Load(certificate.Files{Certificate: t.Certificate, Key: t.PrivateKey}); err != nil {
					return openInput{}, err
				}
				opt.TLS = pair.Server(encrypted)
			}
			s, err := opentsdb.Listen(opt)
			return openInput{service: s, certificate: pair}, err
		})
	}
	if err != nil {
		return nil, errors.Join(err, closeTogether(time.Duration(c.HTTP.StopTimeout), all))
	}
	return all, nil
}

func collectdOptions(c *config.Collectd, log *slog.Logger) (o collectd.Options, err error) {
	o = collectd.Options{Address: c.BindAddress, ReadBuffer: c.ReadBuffer.Int(), Join: c.ParseMultivaluePlugin == "join"}
	if o.Types, err = collectd.ReadTypes(c.TypesDB, func(err error) { log.Warn("collectd types left out", "err", err) }); err != nil {
		return o, err
	}
	if o.Level, err = collectd.ParseLevel(c.SecurityLevel); err != nil || o.Level == collectd.None {
		return o, err
	}
	o.Users, err = collectd.ReadUsers(c.AuthFile)
	return o, err
}

// certificates returns those that connections are encrypted with.
func (all inputs) certificates() (list []*certificate.Pair) {
	for _, o := range all {
		if o.certificate != nil {
			list = append(list, o.certificate)
		}
	}
	return list
}

// metrics returns the inputs for /metrics.
func (all inputs) metrics() input.Metrics {
	var m input.Metrics
	for _, o := range all {
		m = append(m, input.Named{Kind: o.kind, Protocol: o.Addr().Network(), Bind: o.bind, Counts: o.Counts()})
	}
	return m
}

// statistics returns what the inputs count in InfluxDB's names.
func (all inputs) statistics() []show.Statistic {
	var list []show.Statistic
	for _, o := range all {
		s := show.Statistic{Name: o.kind, Tags: model.Tags{{Key: "bind", Value: o.bind}}, Values: o.Statistics()}
		if o.protocol != "" {
			s.Tags = append(s.Tags, model.Tag{Key: "proto", Value: o.protocol})
		}
		list = append(list, s)
	}
	return list
}
