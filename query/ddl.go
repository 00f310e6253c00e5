package query

import (
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/syntax"
)

func (s *session) createDatabase(st *influxql.CreateDatabaseStatement) (meta.Command, error) {
	cmd := meta.CreateDatabase{Name: st.Name, WithoutPolicy: s.opt.WithoutPolicy && !st.RetentionPolicyCreate}
	if st.RetentionPolicyCreate {
		cmd.Policy = &meta.RetentionPolicySpec{
			Name: st.RetentionPolicyName, Duration: st.RetentionPolicyDuration, ReplicaN: st.RetentionPolicyReplication,
			FutureWriteLimit: st.FutureWriteLimit, PastWriteLimit: st.PastWriteLimit,
		}
		if st.RetentionPolicyShardGroupDuration != 0 {
			cmd.Policy.ShardGroupDuration = &st.RetentionPolicyShardGroupDuration
		}
	}
	return cmd, nil
}

func (*session) dropDatabase(st *influxql.DropDatabaseStatement) (meta.Command, error) {
	return meta.DropDatabase{Name: st.Name}, nil
}

func (s *session) createRetentionPolicy(st *influxql.CreateRetentionPolicyStatement) (meta.Command, error) {
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
		FutureWriteLimit: limit(st.FutureWriteLimit), PastWriteLimit: limit(st.PastWriteLimit),
	}}, nil
}

func (s *session) alterRetentionPolicy(st *influxql.AlterRetentionPolicyStatement) (meta.Command, error) {
	return meta.AlterRetentionPolicy{Database: st.Database, Default: st.Default, Policy: meta.RetentionPolicySpec{
		Name: st.Name, Duration: st.Duration, ReplicaN: st.Replication, ShardGroupDuration: st.ShardGroupDuration,
		FutureWriteLimit: st.FutureWriteLimit, PastWriteLimit: st.PastWriteLimit,
	}}, nil
}

func (*session) dropRetentionPolicy(st *influxql.DropRetentionPolicyStatement) (meta.Command, error) {
	return meta.DropRetentionPolicy{Database: st.Database, Name: st.Name}, nil
}

func (*session) dropShard(st *influxql.DropShardStatement) (meta.Command, error) {
	return meta.DropShard{ID: st.ID}, nil
}

func (s *session) acceptLoss(st *syntax.AcceptLoss) (meta.Command, error) {
	return acceptLoss(s.catalog(), s.opt.Storage, st)
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
