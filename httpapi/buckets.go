package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query"
)

// bucketRule is how long a bucket keeps its data; 0 seconds is forever.
type bucketRule struct {
	Type                      string `json:"type"`
	EverySeconds              int64  `json:"everySeconds"`
	ShardGroupDurationSeconds int64  `json:"shardGroupDurationSeconds"`
}

// bucketJSON is a retention policy as a bucket of the v2 API. The catalog
// keeps no times of creation.
type bucketJSON struct {
	Description    string       `json:"description"`
	Name           string       `json:"name"`
	RetentionRules []bucketRule `json:"retentionRules"`
	OrgID          string       `json:"orgId"`
	SchemaType     string       `json:"schemaType"`
	ID             string       `json:"id"`
	Type           string       `json:"type"`
	RP             string       `json:"rp"`
	CreatedAt      time.Time    `json:"createdAt"`
	UpdatedAt      time.Time    `json:"updatedAt"`
}

// bucketRequest is what POST and PATCH bring.
type bucketRequest struct {
	Name           string       `json:"name"`
	RetentionRules []bucketRule `json:"retentionRules"`
}

// defaultBuckets is how many buckets a list has when no limit is given.
const defaultBuckets = 100

func newBucket(db string, rp *meta.RetentionPolicy) bucketJSON {
	name := db + "/" + rp.Name
	return bucketJSON{Name: name, ID: name, RP: rp.Name, SchemaType: "implicit", RetentionRules: []bucketRule{{
		Type: "expire", EverySeconds: int64(rp.Duration / time.Second), ShardGroupDurationSeconds: int64(rp.ShardGroupDuration / time.Second),
	}}}
}

// errBucketNotFound is also the answer for a bucket that the user may not see.
func errBucketNotFound(name string) error {
	return &apiError{http.StatusNotFound, fmt.Sprintf("bucket not found: %q", name)}
}

// findBucket returns a policy by the name of its bucket.
func (h *Handler) findBucket(r *request, name string) (db string, rp *meta.RetentionPolicy, err error) {
	db, policy, err := splitBucket(name)
	if err != nil {
		return "", nil, err
	}
	rp, err = h.opt.Catalog.Catalog().RetentionPolicy(db, policy)
	if err != nil || !r.sees(db) {
		return "", nil, errBucketNotFound(name)
	}
	return db, rp, nil
}

// listBuckets answers GET /api/v2/buckets.
func (h *Handler) listBuckets(w *response, r *request) error {
	q := r.URL.Query()
	limit, offset := defaultBuckets, 0
	var err error
	for name, n := range map[string]*int{"limit": &limit, "offset": &offset} {
		if text := q.Get(name); text != "" && err == nil {
			if *n, err = strconv.Atoi(text); err != nil {
				return badRequest(fmt.Sprintf("%s must be a number, not %q", name, text))
			}
		}
	}
	name, after := q.Get("name"), q.Get("after")
	if name == "" {
		name = q.Get("id")
	}
	all, more := []bucketJSON{}, false
	first := offset
	passed := after == ""
	for _, db := range h.opt.Catalog.Catalog().Databases {
		if !r.sees(db.Name) {
			continue
		}
		for _, rp := range db.RetentionPolicies {
			b := newBucket(db.Name, rp)
			switch {
			case !passed:
				passed = b.ID == after
			case name != "" && b.Name != name:
			case offset > 0:
				offset--
			case limit <= 0 || len(all) < limit:
				all = append(all, b)
			default:
				more = true
			}
		}
	}
	links := pageLinks{Self: pageLink(name, after, limit, first)}
	if more {
		links.Next = pageLink(name, all[len(all)-1].ID, limit, 0)
	}
	return writeJSON(w, http.StatusOK, map[string]any{"buckets": all, "links": links})
}

// pageLinks are the links of a list of buckets. Next is there if more buckets follow.
type pageLinks struct {
	Self string `json:"self"`
	Next string `json:"next,omitempty"`
}

// pageLink returns the link of a list with these parameters.
func pageLink(name, after string, limit, offset int) string {
	q := url.Values{"limit": {strconv.Itoa(limit)}, "offset": {strconv.Itoa(offset)}}
	for key, value := range map[string]string{"name": name, "after": after} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return "/api/v2/buckets?" + q.Encode()
}

// createBucket answers POST /api/v2/buckets. It creates the policy. If the database
// does not exist, createBucket creates it with the policy as its default.
func (h *Handler) createBucket(w *response, r *request) error {
	if !r.isAdmin() {
		return errAdminRequired
	}
	req, err := h.readBucket(w, r)
	if err != nil {
		return err
	}
	db, rp, err := splitBucket(req.Name)
	if err != nil {
		return badRequest(err.Error())
	}
	if rp == "" {
		rp = meta.DefaultRetentionPolicyName
	}
	keep, group, err := req.durations()
	if err != nil {
		return err
	}
	database := h.opt.Catalog.Catalog().Database(db)
	var stmt influxql.Statement
	switch {
	case database == nil:
		stmt = &influxql.CreateDatabaseStatement{
			Name: db, RetentionPolicyCreate: true, RetentionPolicyName: rp,
			RetentionPolicyDuration: &keep, RetentionPolicyShardGroupDuration: group,
		}
	case database.RetentionPolicy(rp) != nil:
		return &apiError{http.StatusUnprocessableEntity, fmt.Sprintf("bucket with name %s already exists", db+"/"+rp)}
	default:
		stmt = &influxql.CreateRetentionPolicyStatement{Name: rp, Database: db, Duration: keep, Replication: 1, ShardGroupDuration: group}
	}
	if err := h.runBucketStatement(r, stmt); err != nil {
		return err
	}
	return h.showBucket(w, r, http.StatusCreated, db+"/"+rp)
}

// bucket answers all paths below /api/v2/buckets/.
func (h *Handler) bucket(w *response, r *request) error {
	name, below := bucketPath(strings.TrimPrefix(r.URL.EscapedPath(), "/api/v2/buckets/"))
	switch below {
	case "":
	case "labels", "members", "owners":
		return &apiError{http.StatusMethodNotAllowed, "bucket " + below + " not supported in this version"}
	default:
		routerText(w, http.StatusNotFound, "404 page not found\n")
		return nil
	}
	if r.Method != http.MethodGet && !r.isAdmin() {
		return errAdminRequired
	}
	switch r.Method {
	case http.MethodGet:
		return h.showBucket(w, r, http.StatusOK, name)
	case http.MethodPatch:
		return h.changeBucket(w, r, name)
	case http.MethodDelete:
		db, rp, err := h.findBucket(r, name)
		if err != nil {
			return err
		}
		if err := h.runBucketStatement(r, &influxql.DropRetentionPolicyStatement{Name: rp.Name, Database: db}); err != nil {
			return err
		}
		w.WriteHeader(http.StatusOK)
		return nil
	}
	w.Header().Set("Allow", "DELETE, GET, PATCH")
	routerText(w, http.StatusMethodNotAllowed, "Method Not Allowed\n")
	return nil
}

// bucketPath splits what follows /api/v2/buckets/ into the name of a bucket,
// whose slash may be escaped or not, and the part below it.
func bucketPath(escaped string) (name, below string) {
	parts := strings.Split(escaped, "/")
	for i, p := range parts {
		if plain, err := url.PathUnescape(p); err == nil {
			parts[i] = plain
		}
	}
	name, parts = parts[0], parts[1:]
	if len(parts) > 0 && !strings.Contains(name, "/") {
		switch parts[0] {
		case "labels", "members", "owners":
		default:
			name, parts = name+"/"+parts[0], parts[1:]
		}
	}
	if len(parts) > 0 {
		below = parts[0]
	}
	return name, below
}

// changeBucket alters how long a bucket keeps its data.
func (h *Handler) changeBucket(w *response, r *request, name string) error {
	req, err := h.readBucket(w, r)
	if err != nil {
		return err
	}
	db, rp, err := h.findBucket(r, name)
	if err != nil {
		return err
	}
	if full := db + "/" + rp.Name; req.Name != "" && req.Name != full {
		return badRequest("a bucket cannot be renamed")
	}
	if len(req.RetentionRules) > 0 {
		keep, group, err := req.durations()
		if err != nil {
			return err
		}
		stmt := &influxql.AlterRetentionPolicyStatement{Name: rp.Name, Database: db, Duration: &keep}
		if group != 0 {
			stmt.ShardGroupDuration = &group
		}
		if err := h.runBucketStatement(r, stmt); err != nil {
			return err
		}
	}
	return h.showBucket(w, r, http.StatusOK, db+"/"+rp.Name)
}

func (h *Handler) showBucket(w *response, r *request, status int, name string) error {
	db, rp, err := h.findBucket(r, name)
	if err != nil {
		return err
	}
	return writeJSON(w, status, newBucket(db, rp))
}

// readBucket reads the body of POST and PATCH.
func (h *Handler) readBucket(w *response, r *request) (*bucketRequest, error) {
	body, err := h.readBody(w, r)
	if err != nil {
		return nil, err
	}
	defer body.Release()
	var req bucketRequest
	if err := json.Unmarshal(body.Bytes(), &req); err != nil {
		return nil, badRequest("cannot parse bucket: " + err.Error())
	}
	return &req, nil
}

// durations returns how long data is kept, 0 for forever, and how long shard groups
// are, 0 for the default.
func (b *bucketRequest) durations() (keep, group time.Duration, err error) {
	const most = int64(math.MaxInt64 / time.Second)
	if len(b.RetentionRules) > 1 {
		return 0, 0, badRequest("a bucket has one retention rule at most")
	}
	for _, rule := range b.RetentionRules {
		if rule.Type != "" && rule.Type != "expire" {
			return 0, 0, badRequest(fmt.Sprintf("unknown type of retention rule %q", rule.Type))
		}
		if rule.EverySeconds < 0 || rule.EverySeconds > most || rule.ShardGroupDurationSeconds < 0 || rule.ShardGroupDurationSeconds > most {
			return 0, 0, badRequest("seconds of a retention rule are out of range")
		}
		keep = time.Duration(rule.EverySeconds) * time.Second
		group = time.Duration(rule.ShardGroupDurationSeconds) * time.Second
	}
	return keep, group, nil
}

// runBucketStatement runs a statement that the caller has authorized.
func (h *Handler) runBucketStatement(r *request, stmt influxql.Statement) error {
	failed := h.run(r.Context(), stmt, query.ExecuteOptions{User: r.userName()})
	for _, refusal := range []error{
		meta.ErrInvalidName, meta.ErrNameTooLong, meta.ErrRetentionPolicyDurationTooLow, meta.ErrIncompatibleDurations,
		meta.ErrRetentionPolicyExists, meta.ErrRetentionPolicyConflict,
	} {
		if errors.Is(failed, refusal) {
			return badRequest(failed.Error())
		}
	}
	return failed
}
