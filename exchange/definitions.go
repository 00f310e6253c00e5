package exchange

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/syntax"
)

// Definitions are what a catalog has besides databases and policies.
type Definitions struct {
	Users         []*meta.User   `json:"users"`
	Queries       []Continuous   `json:"continuous_queries"`
	Downsamples   []Downsample   `json:"downsamples"`
	Subscriptions []Subscription `json:"subscriptions"`
	Boards        []Board        `json:"boards,omitempty"`
	// Limits come after the rows, which they would refuse.
	Limits []WriteLimits `json:"write_limits,omitempty"`
	// New names databases that came with the definitions: users that are there get grants on them.
	New []string `json:"new_databases,omitempty"`
}

// WriteLimits are FUTURE LIMIT and PAST LIMIT of a retention policy; 0: none.
type WriteLimits struct {
	Database        string        `json:"database"`
	RetentionPolicy string        `json:"retention_policy"`
	Future          time.Duration `json:"future"`
	Past            time.Duration `json:"past"`
}

// Statement returns the statement that sets the limits.
func (l *WriteLimits) Statement() string {
	text := fmt.Sprintf("ALTER RETENTION POLICY %s ON %s", QuoteIdent(l.RetentionPolicy), QuoteIdent(l.Database))
	if l.Future > 0 {
		text += " FUTURE LIMIT " + influxql.FormatDuration(l.Future)
	}
	if l.Past > 0 {
		text += " PAST LIMIT " + influxql.FormatDuration(l.Past)
	}
	return text
}

// Limits returns the limits of the policies of a database, which gets a name.
func Limits(d *meta.Database, name string) (out []WriteLimits) {
	for _, rp := range d.RetentionPolicies {
		if rp.Limited() {
			out = append(out, WriteLimits{name, rp.Name, rp.FutureWriteLimit, rp.PastWriteLimit})
		}
	}
	return out
}

// Continuous is a continuous query of a database.
type Continuous struct {
	Database string `json:"database"`
	Name     string `json:"name"`
	Query    string `json:"query"`
}

// Downsample is a downsample of a database. The server that it is defined on has yet to
// compute its windows.
type Downsample struct {
	Database   string          `json:"database"`
	Definition meta.Downsample `json:"downsample"`
	// FromExpired and IntoExpired are up to where rows of the two policies have expired; 0: none
	// have.
	FromExpired int64 `json:"from_expired,omitempty"`
	IntoExpired int64 `json:"into_expired,omitempty"`
}

// DownsampleOf returns a downsample of a database, whose policies know what has expired.
func DownsampleOf(db *meta.Database, t *meta.Downsample) Downsample {
	return Downsample{db.Name, *t, db.RetentionPolicy(t.From).Expired, db.RetentionPolicy(t.Into).Expired}
}

// Statement returns the statement that makes the downsample.
func (t *Downsample) Statement() string {
	return syntax.DownsampleText(t.Database, &t.Definition)
}

// ParseDownsample reads the statement that makes a downsample.
func ParseDownsample(text string) (Downsample, error) {
	q, err := syntax.Parse(text, nil)
	if err != nil {
		return Downsample{}, err
	}
	st, ok := q.Statements[0].(*syntax.CreateDownsample)
	if !ok {
		return Downsample{}, fmt.Errorf("%q makes no downsample", text)
	}
	return Downsample{Database: st.Database, Definition: meta.Downsample{
		Name: st.Name, From: st.From, Into: st.Into, Measurement: st.Measurement, Regex: st.Regex, Use: st.Use, Definitions: []meta.Definition{st.Defined()},
	}}, nil
}

// Statements returns the statements that make queries, downsamples and limits.
func (d *Definitions) Statements() (out []string) {
	for _, q := range d.Queries {
		out = append(out, q.Query)
	}
	for _, t := range d.Downsamples {
		out = append(out, t.Statement())
	}
	for _, l := range d.Limits {
		out = append(out, l.Statement())
	}
	return out
}

// Subscription is a subscription of a retention policy.
type Subscription struct {
	Database        string            `json:"database"`
	RetentionPolicy string            `json:"retention_policy"`
	Subscription    meta.Subscription `json:"subscription"`
}

// Board is a board of a database.
type Board struct {
	Database string          `json:"database"`
	Name     string          `json:"name"`
	Content  json.RawMessage `json:"content"`
}

// Defined counts the definitions that were created.
type Defined struct {
	Users         int `json:"users"`
	Queries       int `json:"continuous_queries"`
	Downsamples   int `json:"downsamples"`
	Subscriptions int `json:"subscriptions"`
	Boards        int `json:"boards,omitempty"`
	Limits        int `json:"write_limits,omitempty"`
	Grants        int `json:"grants,omitempty"` // of users that were there
}

// Catalog is a catalog that can be changed.
type Catalog interface {
	Catalog() *meta.Data
	Apply(ctx context.Context, cmd meta.Command) error
}

// Define gives a server the definitions that it lacks; those that it has under
// the same name stay as they are, except that users get grants on new databases.
func (c *Client) Define(ctx context.Context, d *Definitions) (made Defined, err error) {
	b, err := json.Marshal(d)
	if err != nil {
		return made, err
	}
	err = c.Ask(ctx, http.MethodPost, PathPrefix+"define", nil, http.Header{"Content-Type": {"application/json"}}, bytes.NewReader(b), &made)
	return made, err
}

// MakeDefinitions applies what is lacking. A grant on a database that is not
// there is left out.
func MakeDefinitions(ctx context.Context, to Catalog, d *Definitions) (made Defined, err error) {
	for _, u := range d.Users {
		if u == nil {
			continue
		}
		if err := makeUser(ctx, to, u, d.New, &made); err != nil {
			return made, fmt.Errorf("user %s: %w", u.Name, err)
		}
	}
	for _, q := range d.Queries {
		db := to.Catalog().Database(q.Database)
		there := db != nil && slices.ContainsFunc(db.ContinuousQueries, func(o meta.ContinuousQuery) bool { return o.Name == q.Name })
		err := to.Apply(ctx, meta.CreateContinuousQuery{Database: q.Database, Name: q.Name, Query: q.Query})
		if err != nil && !errors.Is(err, meta.ErrContinuousQueryExists) {
			return made, fmt.Errorf("continuous query %s: %w", q.Name, err)
		}
		if err == nil && !there {
			made.Queries++
		}
	}
	for _, t := range d.Downsamples {
		def, db := &t.Definition, to.Catalog().Database(t.Database)
		there := db != nil && db.Downsample(def.Into) != nil
		now, expired := time.Now(), t.FromExpired
		if db != nil && db.RetentionPolicy(def.From) != nil && db.RetentionPolicy(def.From).Duration > 0 {
			// The server has not taken older rows: the target has what they came to.
			expired = max(expired, now.Add(-db.RetentionPolicy(def.From).Duration).UnixNano())
		}
		err := to.Apply(ctx, meta.CreateDownsample{
			Database: t.Database, Name: def.Name, From: def.From, Into: def.Into, Measurement: def.Measurement, Regex: def.Regex, Use: def.Use,
			Definitions: def.Definitions, Time: now.UnixNano(), Begins: def.Begins, FromExpired: expired, IntoExpired: t.IntoExpired,
		})
		if err != nil && !errors.Is(err, meta.ErrDownsampleExists) {
			return made, fmt.Errorf("downsample from %s into %s: %w", def.From, def.Into, err)
		}
		if err == nil && !there {
			made.Downsamples++
		}
	}
	for _, s := range d.Subscriptions {
		err := to.Apply(ctx, meta.CreateSubscription{Database: s.Database, RetentionPolicy: s.RetentionPolicy, Subscription: s.Subscription})
		if err != nil && !errors.Is(err, meta.ErrSubscriptionExists) {
			return made, fmt.Errorf("subscription %s: %w", s.Subscription.Name, err)
		}
		if err == nil {
			made.Subscriptions++
		}
	}
	before := to.Catalog() // two boards may have one name
	for _, b := range d.Boards {
		db := before.Database(b.Database)
		if db != nil && slices.ContainsFunc(db.Boards, func(o *meta.Board) bool { return o.Name == b.Name }) {
			continue
		}
		content, err := meta.BoardContent(b.Content)
		if err == nil {
			err = to.Apply(ctx, meta.PutBoard{Database: b.Database, Name: b.Name, Content: content, Time: time.Now().UnixNano()})
		}
		if err != nil {
			return made, fmt.Errorf("board %s: %w", b.Name, err)
		}
		made.Boards++
	}
	for _, l := range d.Limits {
		db := to.Catalog().Database(l.Database)
		if db == nil || db.RetentionPolicy(l.RetentionPolicy) == nil || db.RetentionPolicy(l.RetentionPolicy).Limited() {
			continue
		}
		spec := meta.RetentionPolicySpec{Name: l.RetentionPolicy, FutureWriteLimit: &l.Future, PastWriteLimit: &l.Past}
		if err := to.Apply(ctx, meta.AlterRetentionPolicy{Database: l.Database, Policy: spec}); err != nil {
			return made, fmt.Errorf("%s: %w", l.Statement(), err)
		}
		made.Limits++
	}
	return made, nil
}

// makeUser makes a user with its grants. A user that is there gets those on new databases, unless
// it has all rights or a grant already.
func makeUser(ctx context.Context, to Catalog, u *meta.User, added []string, made *Defined) error {
	is := to.Catalog().User(u.Name)
	if is == nil {
		err := to.Apply(ctx, meta.CreateUser{Name: u.Name, Hash: u.Hash, Admin: u.Admin})
		if errors.Is(err, meta.ErrUserExists) {
			return nil
		}
		if err != nil {
			return err
		}
		made.Users++
	}
	for db, p := range u.Privileges {
		if to.Catalog().Database(db) == nil {
			continue
		}
		if is != nil && (is.Admin || p == meta.NoPrivileges || is.Privileges[db] != meta.NoPrivileges || !slices.Contains(added, db)) {
			continue
		}
		if err := to.Apply(ctx, meta.SetPrivilege{Name: u.Name, Database: db, Privilege: p}); err != nil {
			return err
		}
		if is != nil {
			made.Grants++
		}
	}
	return nil
}
