package meta

import (
	"errors"
	"maps"
	"slices"
)

// CreateUser makes a user without grants. Whether a same user exists, and with
// which password, is for the caller to find out: hashes are salted.
type CreateUser struct {
	Name, Hash string
	Admin      bool
}

// SetPassword replaces a user's hash.
type SetPassword struct{ Name, Hash string }

// SetAdmin makes a user an administrator, or no longer.
type SetAdmin struct {
	Name  string
	Admin bool
}

// SetPrivilege sets what a user may do with a database.
type SetPrivilege struct {
	Name, Database string
	Privilege      Privilege
}

// DropUser removes a user.
type DropUser struct{ Name string }

// CreateContinuousQuery stores a continuous query. The same text under the
// same name again is no error.
type CreateContinuousQuery struct{ Database, Name, Query string }

// DropContinuousQuery removes a continuous query. A missing one is no error.
type DropContinuousQuery struct{ Database, Name string }

// SetContinuousRuns notes how far continuous queries have come.
type SetContinuousRuns struct{ Runs []QueryRun }

// QueryRun is how far a query has come. A query that is gone, or has another text by
// now, stays as it is.
type QueryRun struct {
	Database, Name, Query string
	Run                   ContinuousRun
}

// CreateSubscription stores a subscription of a retention policy.
type CreateSubscription struct {
	Database, RetentionPolicy string
	Subscription              Subscription
}

// DropSubscription removes a subscription.
type DropSubscription struct{ Database, RetentionPolicy, Name string }

func (c CreateUser) apply(d *Data) (bool, error) {
	if c.Name == "" {
		return false, ErrUsernameRequired
	}
	if !validName(c.Name) {
		return false, ErrInvalidName
	}
	if d.User(c.Name) != nil {
		return false, ErrUserExists
	}
	d.Users = append(d.Users, &User{Name: c.Name, Hash: c.Hash, Admin: c.Admin})
	return true, nil
}

func (c SetPassword) apply(d *Data) (bool, error) {
	return d.changeUser(c.Name, func(u *User) { u.Hash = c.Hash })
}

func (c SetAdmin) apply(d *Data) (bool, error) {
	return d.changeUser(c.Name, func(u *User) { u.Admin = c.Admin })
}

func (c SetPrivilege) apply(d *Data) (bool, error) {
	if d.User(c.Name) == nil {
		return false, ErrUserNotFound
	}
	if !slices.ContainsFunc(d.Databases, func(db *Database) bool { return db.Name == c.Database }) {
		return false, databaseNotFound(c.Database)
	}
	return d.changeUser(c.Name, func(u *User) {
		if u.Privileges = maps.Clone(u.Privileges); u.Privileges == nil {
			u.Privileges = map[string]Privilege{}
		}
		u.Privileges[c.Database] = c.Privilege & AllPrivileges
	})
}

func (c DropUser) apply(d *Data) (bool, error) {
	i := slices.IndexFunc(d.Users, func(u *User) bool { return u.Name == c.Name })
	if i < 0 {
		return false, ErrUserNotFound
	}
	d.Users = slices.Delete(d.Users, i, i+1)
	return true, nil
}

func (c CreateContinuousQuery) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		if !validName(c.Name) {
			return false, ErrInvalidName
		}
		if q := db.ContinuousQuery(c.Name); q != nil {
			if q.Query == c.Query {
				return false, nil
			}
			return false, ErrContinuousQueryExists
		}
		db.ContinuousQueries = append(slices.Clip(db.ContinuousQueries), ContinuousQuery{Name: c.Name, Query: c.Query})
		return true, nil
	})
}

func (c DropContinuousQuery) apply(d *Data) (bool, error) {
	return d.changeDatabase(c.Database, func(db *Database) (bool, error) {
		before := len(db.ContinuousQueries)
		db.ContinuousQueries = slices.DeleteFunc(slices.Clone(db.ContinuousQueries), func(q ContinuousQuery) bool { return q.Name == c.Name })
		return len(db.ContinuousQueries) < before, nil
	})
}

func (c SetContinuousRuns) apply(d *Data) (bool, error) {
	changed := false
	for _, r := range c.Runs {
		noted, err := d.changeDatabase(r.Database, func(db *Database) (bool, error) {
			db.ContinuousQueries = slices.Clone(db.ContinuousQueries)
			q := db.ContinuousQuery(r.Name)
			if q == nil || q.Query != r.Query || q.Run == r.Run {
				return false, nil
			}
			q.Run = r.Run
			return true, nil
		})
		if err != nil && !errors.Is(err, ErrDatabaseNotFound) {
			return false, err
		}
		changed = changed || noted
	}
	return changed, nil
}

func (c CreateSubscription) apply(d *Data) (bool, error) {
	return d.changePolicy(c.Database, c.RetentionPolicy, func(_ *Database, rp *RetentionPolicy) (bool, error) {
		if !validName(c.Subscription.Name) {
			return false, ErrInvalidName
		}
		if slices.ContainsFunc(rp.Subscriptions, func(s Subscription) bool { return s.Name == c.Subscription.Name }) {
			return false, ErrSubscriptionExists
		}
		rp.Subscriptions = append(slices.Clip(rp.Subscriptions), c.Subscription)
		return true, nil
	})
}

func (c DropSubscription) apply(d *Data) (bool, error) {
	return d.changePolicy(c.Database, c.RetentionPolicy, func(_ *Database, rp *RetentionPolicy) (bool, error) {
		i := slices.IndexFunc(rp.Subscriptions, func(s Subscription) bool { return s.Name == c.Name })
		if i < 0 {
			return false, ErrSubscriptionNotFound
		}
		rp.Subscriptions = slices.Delete(slices.Clone(rp.Subscriptions), i, i+1)
		return true, nil
	})
}

func (d *Data) changeUser(name string, change func(*User)) (bool, error) {
	i := slices.IndexFunc(d.Users, func(u *User) bool { return u.Name == name })
	if i < 0 {
		return false, ErrUserNotFound
	}
	next := *d.Users[i]
	change(&next)
	d.Users[i] = &next
	return true, nil
}
