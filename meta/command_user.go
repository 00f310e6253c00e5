package meta

import (
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
	if d.findDatabase(c.Database) == nil {
		return false, databaseNotFound(c.Database)
	}
	return d.changeUser(c.Name, func(u *User) {
		u.Privileges = clonePrivileges(u.Privileges)
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
	db := d.findDatabase(c.Database)
	if db == nil {
		return false, databaseNotFound(c.Database)
	}
	if !validName(c.Name) {
		return false, ErrInvalidName
	}
	for _, q := range db.ContinuousQueries {
		if q.Name == c.Name {
			if q.Query == c.Query {
				return false, nil
			}
			return false, ErrContinuousQueryExists
		}
	}
	next := *db
	next.ContinuousQueries = append(slices.Clip(db.ContinuousQueries), ContinuousQuery{Name: c.Name, Query: c.Query})
	d.replaceDatabase(&next)
	return true, nil
}

func (c DropContinuousQuery) apply(d *Data) (bool, error) {
	db := d.findDatabase(c.Database)
	if db == nil {
		return false, databaseNotFound(c.Database)
	}
	i := slices.IndexFunc(db.ContinuousQueries, func(q ContinuousQuery) bool { return q.Name == c.Name })
	if i < 0 {
		return false, nil
	}
	next := *db
	next.ContinuousQueries = slices.Delete(slices.Clone(db.ContinuousQueries), i, i+1)
	d.replaceDatabase(&next)
	return true, nil
}

func (c SetContinuousRuns) apply(d *Data) (bool, error) {
	changed := false
	for _, r := range c.Runs {
		db := d.findDatabase(r.Database)
		if db == nil {
			continue
		}
		i := slices.IndexFunc(db.ContinuousQueries, func(q ContinuousQuery) bool { return q.Name == r.Name && q.Query == r.Query })
		if i < 0 || db.ContinuousQueries[i].Run == r.Run {
			continue
		}
		next := *db
		next.ContinuousQueries = slices.Clone(db.ContinuousQueries)
		next.ContinuousQueries[i].Run = r.Run
		d.replaceDatabase(&next)
		changed = true
	}
	return changed, nil
}

func (c CreateSubscription) apply(d *Data) (bool, error) {
	db, have, err := d.findPolicy(c.Database, c.RetentionPolicy)
	if err != nil {
		return false, err
	}
	if !validName(c.Subscription.Name) {
		return false, ErrInvalidName
	}
	if slices.ContainsFunc(have.Subscriptions, func(s Subscription) bool { return s.Name == c.Subscription.Name }) {
		return false, ErrSubscriptionExists
	}
	rp := *have
	rp.Subscriptions = append(slices.Clip(have.Subscriptions), c.Subscription)
	d.replaceGroups(db, &rp)
	return true, nil
}

func (c DropSubscription) apply(d *Data) (bool, error) {
	db, have, err := d.findPolicy(c.Database, c.RetentionPolicy)
	if err != nil {
		return false, err
	}
	i := slices.IndexFunc(have.Subscriptions, func(s Subscription) bool { return s.Name == c.Name })
	if i < 0 {
		return false, ErrSubscriptionNotFound
	}
	rp := *have
	rp.Subscriptions = slices.Delete(slices.Clone(have.Subscriptions), i, i+1)
	d.replaceGroups(db, &rp)
	return true, nil
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

func clonePrivileges(p map[string]Privilege) map[string]Privilege {
	if p == nil {
		return map[string]Privilege{}
	}
	return maps.Clone(p)
}
