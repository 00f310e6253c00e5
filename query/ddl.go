package query

import (
	"errors"
	"fmt"
	"math"
	"net"
	"net/url"
	"path"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/model"
	"tsdbd/model/scan"
	"tsdbd/query/expr"
	"tsdbd/query/syntax"
	"tsdbd/retention"
)

func (s *session) createDatabase(st *influxql.CreateDatabaseStatement) (meta.Command, error) {
	return s.newDatabase(st, nil), nil
}

func (s *session) createColdDatabase(st *syntax.CreateDatabase) (meta.Command, error) {
	return s.newDatabase(st.CreateDatabaseStatement, &st.Cold), nil
}

// newDatabase returns what CREATE DATABASE asks for, with the age of a clause COLD.
func (s *session) newDatabase(st *influxql.CreateDatabaseStatement, cold *time.Duration) meta.Command {
	cmd := meta.CreateDatabase{Name: st.Name, WithoutPolicy: s.opt.WithoutPolicy && !st.RetentionPolicyCreate}
	if st.RetentionPolicyCreate {
		cmd.Policy = &meta.RetentionPolicySpec{
			Name: st.RetentionPolicyName, Duration: st.RetentionPolicyDuration, ReplicaN: st.RetentionPolicyReplication,
			FutureWriteLimit: st.FutureWriteLimit, PastWriteLimit: st.PastWriteLimit, ColdAfter: cold,
		}
		if st.RetentionPolicyShardGroupDuration != 0 {
			cmd.Policy.ShardGroupDuration = &st.RetentionPolicyShardGroupDuration
		}
	}
	return cmd
}

func (*session) dropDatabase(st *influxql.DropDatabaseStatement) (meta.Command, error) {
	return meta.DropDatabase{Name: st.Name}, nil
}

func (*session) createRetentionPolicy(st *influxql.CreateRetentionPolicyStatement) (meta.Command, error) {
	return newRetentionPolicy(st, nil)
}

func (*session) createColdRetentionPolicy(st *syntax.CreateRetentionPolicy) (meta.Command, error) {
	return newRetentionPolicy(st.CreateRetentionPolicyStatement, &st.Cold)
}

// newRetentionPolicy returns what CREATE RETENTION POLICY asks for, with the age of a clause COLD.
func newRetentionPolicy(st *influxql.CreateRetentionPolicyStatement, cold *time.Duration) (meta.Command, error) {
	if err := meta.CheckName(st.Name); err != nil {
		return nil, err
	}
	limit := func(d time.Duration) *time.Duration {
		if d == 0 {
			return nil
		}
		return &d
	}
	return meta.CreateRetentionPolicy{Database: st.Database, Default: st.Default, Policy: meta.RetentionPolicySpec{
		Name: st.Name, Duration: &st.Duration, ReplicaN: &st.Replication, ShardGroupDuration: &st.ShardGroupDuration,
		FutureWriteLimit: limit(st.FutureWriteLimit), PastWriteLimit: limit(st.PastWriteLimit), ColdAfter: cold,
	}}, nil
}

func (s *session) alterRetentionPolicy(st *influxql.AlterRetentionPolicyStatement) (meta.Command, error) {
	return s.alteredRetentionPolicy(st, nil), nil
}

func (s *session) alterColdRetentionPolicy(st *syntax.AlterRetentionPolicy) (meta.Command, error) {
	return s.alteredRetentionPolicy(st.AlterRetentionPolicyStatement, &st.Cold), nil
}

// alteredRetentionPolicy returns what ALTER RETENTION POLICY asks for, with the age of a clause COLD.
func (s *session) alteredRetentionPolicy(st *influxql.AlterRetentionPolicyStatement, cold *time.Duration) meta.Command {
	return meta.AlterRetentionPolicy{Database: st.Database, Default: st.Default, Policy: meta.RetentionPolicySpec{
		Name: st.Name, Duration: st.Duration, ReplicaN: st.Replication, ShardGroupDuration: st.ShardGroupDuration,
		FutureWriteLimit: st.FutureWriteLimit, PastWriteLimit: st.PastWriteLimit, ColdAfter: cold,
	}, Time: s.opt.Now().UnixNano()}
}

func (*session) dropRetentionPolicy(st *influxql.DropRetentionPolicyStatement) (meta.Command, error) {
	return meta.DropRetentionPolicy{Database: st.Database, Name: st.Name}, nil
}

// dropShard drops a shard. That of a group that has expired, which downsamples have had their time
// with, goes as by its age: what they have of it stays.
func (s *session) dropShard(st *influxql.DropShardStatement) (meta.Command, error) {
	at, ok := s.catalog().Shard(st.ID)
	if !ok || len(at.Group.Shards) > 1 || !retention.Expired(at.Policy, at.Group, s.opt.Now()) ||
		!slices.ContainsFunc(at.Database.Downsamples, func(d meta.Downsample) bool { return d.From == at.Policy.Name }) {
		return meta.DropShard{ID: st.ID}, nil
	}
	if first := at.Policy.ShardGroups[0]; first.ID != at.Group.ID {
		return nil, fmt.Errorf("shard %d has expired, and so have shards before it that a downsample may need: drop shard %d first", st.ID, first.Shards[0].ID)
	}
	return meta.DropShardGroup{Database: at.Database.Name, RetentionPolicy: at.Policy.Name, ID: at.Group.ID, IfDuration: at.Policy.Duration, Uncomputed: true}, nil
}

func (s *session) createUser(st *influxql.CreateUserStatement) (meta.Command, error) {
	if u := s.catalog().User(st.Name); u != nil {
		if u.Admin == st.Admin && s.opt.CheckPassword(u.Hash, st.Password) {
			return nil, nil
		}
		return nil, meta.ErrUserExists
	}
	hash, err := s.opt.HashPassword(st.Password)
	if err != nil {
		return nil, err
	}
	return meta.CreateUser{Name: st.Name, Hash: hash, Admin: st.Admin}, nil
}

func (s *session) setPassword(st *influxql.SetPasswordUserStatement) (meta.Command, error) {
	if s.catalog().User(st.Name) == nil {
		return nil, meta.ErrUserNotFound
	}
	hash, err := s.opt.HashPassword(st.Password)
	if err != nil {
		return nil, err
	}
	return meta.SetPassword{Name: st.Name, Hash: hash}, nil
}

func (*session) dropUser(st *influxql.DropUserStatement) (meta.Command, error) {
	return meta.DropUser{Name: st.Name}, nil
}

func (*session) grantAdmin(st *influxql.GrantAdminStatement) (meta.Command, error) {
	return meta.SetAdmin{Name: st.User, Admin: true}, nil
}

func (*session) revokeAdmin(st *influxql.RevokeAdminStatement) (meta.Command, error) {
	return meta.SetAdmin{Name: st.User, Admin: false}, nil
}

func (*session) grant(st *influxql.GrantStatement) (meta.Command, error) {
	return meta.SetPrivilege{Name: st.User, Database: st.On, Privilege: meta.Privilege(st.Privilege)}, nil
}

func (s *session) revoke(st *influxql.RevokeStatement) (meta.Command, error) {
	u := s.catalog().User(st.User)
	if u == nil {
		return nil, meta.ErrUserNotFound
	}
	left := u.Privileges[st.On] &^ meta.Privilege(st.Privilege)
	return meta.SetPrivilege{Name: st.User, Database: st.On, Privilege: left}, nil
}

func (s *session) createContinuousQuery(st *influxql.CreateContinuousQueryStatement) (meta.Command, error) {
	catalog := s.catalog()
	if target := st.Source.Target; target != nil && target.Measurement != nil {
		m := target.Measurement
		if _, err := catalog.RetentionPolicy(m.Database, m.RetentionPolicy); errors.Is(err, meta.ErrRetentionPolicyNotFound) {
			return nil, fmt.Errorf("%w: %s.%s", meta.ErrRetentionPolicyNotFound, m.Database, m.RetentionPolicy)
		}
	}
	return meta.CreateContinuousQuery{Database: st.Database, Name: st.Name, Query: st.String()}, nil
}

func (s *session) dropContinuousQuery(st *influxql.DropContinuousQueryStatement) (meta.Command, error) {
	if s.catalog().Database(st.Database) == nil {
		return nil, nil
	}
	return meta.DropContinuousQuery{Database: st.Database, Name: st.Name}, nil
}

// createSubscription checks the destinations: udp, http or https, with a port.
func (*session) createSubscription(st *influxql.CreateSubscriptionStatement) (meta.Command, error) {
	for _, dest := range st.Destinations {
		u, err := url.Parse(dest)
		bad := err != nil || u.Scheme != "udp" && u.Scheme != "http" && u.Scheme != "https"
		if !bad {
			_, port, err := net.SplitHostPort(u.Host)
			bad = err != nil || port == ""
		}
		if bad {
			return nil, fmt.Errorf("invalid subscription URL: %s", dest)
		}
	}
	return meta.CreateSubscription{
		Database: st.Database, RetentionPolicy: st.RetentionPolicy,
		Subscription: meta.Subscription{Name: st.Name, Mode: st.Mode, Destinations: st.Destinations},
	}, nil
}

func (s *session) dropSubscription(st *influxql.DropSubscriptionStatement) (meta.Command, error) {
	if s.catalog().Database(st.Database) == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, st.Database)
	}
	return meta.DropSubscription{Database: st.Database, RetentionPolicy: st.RetentionPolicy, Name: st.Name}, nil
}

func (s *session) createDownsample(st *syntax.CreateDownsample) (meta.Command, error) {
	if st.Condition != nil {
		if _, err := expr.SplitTime(st.Condition, time.Time{}, nil); err != nil {
			return nil, err
		}
	}
	if err := s.unstaged(st.Database, st.Into); err != nil {
		return nil, err
	}
	return meta.CreateDownsample{
		Database: st.Database, Name: st.Name, From: st.From, Into: st.Into, Measurement: st.Measurement, Regex: st.Regex, Use: st.Use,
		Definitions: []meta.Definition{st.Defined()}, Time: s.opt.Now().UnixNano(),
	}, nil
}

// unstaged returns an error if a policy that never was a target has measurements that moves
// would take for theirs, and delete.
func (s *session) unstaged(database, policy string) error {
	db := s.catalog().Database(database)
	if db == nil || db.RetentionPolicy(policy) == nil || db.RetentionPolicy(policy).Downsampled != nil || db.Downsample(policy) != nil {
		return nil
	}
	v, err := s.opt.Storage.View(database, policy, model.AllTime)
	if err != nil {
		return err
	}
	defer v.Release()
	for _, sh := range v.Shards() {
		for _, name := range sh.Measurements() {
			if meta.Staged(name) {
				return errors.New(meta.StagedReason(name) + ": give it another name first")
			}
		}
	}
	return nil
}

func (s *session) alterDownsample(st *syntax.AlterDownsample) (meta.Command, error) {
	from, into, err := s.policies(&st.Policies)
	return meta.AlterDownsample{
		Database: st.Database, From: from, Into: into, Period: st.Period, Add: st.Add, Drop: st.Drop, Later: st.Later, Use: st.Use, Time: s.opt.Now().UnixNano(),
	}, err
}

func (s *session) dropDownsample(st *syntax.DropDownsample) (meta.Command, error) {
	from, into, err := s.policies(&st.Policies)
	return meta.DropDownsample{Database: st.Database, From: from, Into: into}, err
}

// policies returns the source and the target of a downsample that a statement means.
func (s *session) policies(st *syntax.Policies) (from, into string, err error) {
	if st.Name == "" {
		return st.From, st.Into, nil
	}
	db := s.catalog().Database(st.Database)
	if db == nil {
		return "", "", fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, st.Database)
	}
	if d := db.DownsampleNamed(st.Name); d != nil {
		return d.From, d.Into, nil
	}
	return "", "", fmt.Errorf("%w: %s", meta.ErrDownsampleNotFound, st.Name)
}

// skipWindows gives up the windows of a downsample that end before a time, now at most, and are
// to be computed. What holds expired shard groups then is gone.
func (s *session) skipWindows(st *syntax.SkipWindows) (meta.Command, error) {
	db := s.catalog().Database(st.Database)
	if db == nil {
		return nil, fmt.Errorf("%w: %s", meta.ErrDatabaseNotFound, st.Database)
	}
	from, into, err := s.policies(&st.Policies)
	if err != nil {
		return nil, err
	}
	d := db.Downsample(into)
	if d == nil || d.From != from {
		return nil, fmt.Errorf("%w: from %s into %s", meta.ErrDownsampleNotFound, from, into)
	}
	return meta.CompleteWindows{ID: d.ID, Sequence: math.MaxUint64, Windows: []meta.ComputedWindows{
		{From: model.MinTime, To: d.Start(min(st.Before, s.opt.Now().UnixNano())), Target: math.MaxUint64},
	}}, nil
}

// acceptLoss accepts for good what damage has taken from a shard so far. The statement
// names the times, so that nobody accepts more than they know of.
func (s *session) acceptLoss(st *syntax.AcceptLoss) (meta.Command, error) {
	losses, err := lossesOf(s.catalog(), s.opt.Storage, st.Shard)
	if err != nil {
		return nil, err
	}
	var cmd meta.AcceptLoss
	for _, l := range losses {
		if l.Range.Min < st.Range.Min || l.Range.Max > st.Range.Max {
			all := syntax.AcceptLoss{Shard: l.Shard, Range: l.Range}
			return nil, fmt.Errorf("the loss is of more times than the statement names, which would be: %s", all.String())
		}
		cmd.Losses = append(cmd.Losses, meta.AcceptedLoss{Shard: l.Shard, Range: l.Range, File: path.Base(l.Path), ID: l.ID})
	}
	if len(losses) == 0 {
		return nil, fmt.Errorf("shard %d has lost nothing on this node", st.Shard)
	}
	return cmd, nil
}

// lossesOf returns what damage has taken from a shard, or with 0 from the log, and nobody
// has accepted.
func lossesOf(catalog *meta.Data, storage scan.Storage, id uint64) (out []scan.Loss, err error) {
	at, ok := catalog.Shard(id)
	times := model.AllTime
	switch {
	case ok:
		times = at.Group.TimeRange()
	case id != 0:
		return nil, meta.ErrShardNotFound
	default: // the log is behind all shards
		for _, at = range catalog.Shards() {
			break
		}
		if at.Database == nil {
			return nil, nil
		}
	}
	view, err := storage.View(at.Database.Name, at.Policy.Name, times)
	if err == nil {
		view.Release()
		return nil, nil
	}
	damage, ok := errors.AsType[*scan.DamageError](err)
	if !ok {
		return nil, err
	}
	for _, l := range damage.Losses {
		if l.Shard == id {
			out = append(out, l)
		}
	}
	return out, nil
}
