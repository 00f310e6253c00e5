package httpapi_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tsdbd/httpapi"
	"tsdbd/meta"
	"tsdbd/model/scan"
	"tsdbd/query"
)

// catalogAdmin is a query.Admin of a catalog without data.
type catalogAdmin struct {
	*fakeUsers
	fail error // answers the next commands
}

func (a *catalogAdmin) Apply(_ context.Context, cmd meta.Command) error {
	if a.fail != nil {
		return a.fail
	}
	d, err := meta.Apply(cmd, a.data.Load())
	if err == nil {
		a.data.Store(d)
	}
	return err
}

func (*catalogAdmin) Delete(context.Context, scan.DeleteRequest) error { return nil }

func (*catalogAdmin) Move(context.Context, scan.MoveRequest) (scan.Moved, error) {
	return scan.Moved{}, nil
}

// TestBuckets runs the bucket routes over the statements of package query.
func TestBuckets(t *testing.T) {
	users, _, opt := withUsers(t)
	users.apply(t, meta.CreateDatabase{Name: "hidden"})
	admin := &catalogAdmin{fakeUsers: users}
	opt.Query = query.New(query.Options{Admin: admin})
	opt.Writer = newFakeStore()
	h := httpapi.New(opt)
	defer h.Close()
	f := func(user, method, path, body string, status int, want string) {
		t.Helper()
		path = "/api/v2/buckets" + path
		login := "?u=" + user + "&p=" + user + "pw"
		if strings.Contains(path, "?") {
			login = "&" + login[1:]
		}
		a := serve(h, method, path+login, strings.NewReader(body))
		if a.Code != status || !strings.Contains(a.Body.String(), want) {
			t.Errorf("%s %s %s %s:\n got %d %s\nwant %d %s", user, method, path, body, a.Code, a.Body, status, want)
		}
	}
	bucket := func(name, every, group string) string {
		_, rp, _ := strings.Cut(name, "/")
		return `{"description":"","name":"` + name + `","retentionRules":[{"type":"expire","everySeconds":` + every + `,"shardGroupDurationSeconds":` + group +
			`}],"orgId":"","schemaType":"implicit","id":"` + name + `","type":"","rp":"` + rp + `","createdAt":"0001-01-01T00:00:00Z","updatedAt":"0001-01-01T00:00:00Z"}`
	}
	own, hidden := bucket("db/autogen", "0", "604800"), bucket("hidden/autogen", "0", "604800")
	f("ann", "GET", "", "", 200, `{"buckets":[`+own+`],"links":{"self":"/api/v2/buckets?`)
	f("root", "GET", "", "", 200, `{"buckets":[`+own+`,`+hidden+`],"links":{"self":"/api/v2/buckets?limit=100\u0026offset=0"}}`)
	f("root", "GET", "?limit=1", "", 200, `{"buckets":[`+own+`],"links":{"self":"/api/v2/buckets?limit=1\u0026offset=0","next":"/api/v2/buckets?after=db%2Fautogen\u0026limit=1\u0026offset=0"}}`)
	f("root", "GET", "?limit=1&offset=1", "", 200, `{"buckets":[`+hidden+`],"links":{"self":"/api/v2/buckets?limit=1\u0026offset=1"}}`)
	f("root", "GET", "?after=db/autogen", "", 200, `{"buckets":[`+hidden+`],"links":{"self":"/api/v2/buckets?after=db%2Fautogen\u0026limit=100\u0026offset=0"}}`)
	f("root", "GET", "?id=db/autogen", "", 200, `{"buckets":[`+own+`],"links":{"self":"/api/v2/buckets?limit=100\u0026name=db%2Fautogen\u0026offset=0"}}`)
	f("root", "GET", "?limit=x", "", 400, `limit must be a number, not \"x\"`)
	f("ann", "GET", "/hidden", "", 404, `bucket not found: \"hidden\"`)
	f("ann", "GET", "/db", "", 200, own)

	f("ann", "POST", "", `{"name":"new"}`, 403, "administrator required")
	f("root", "POST", "", `{"name":"b/one","retentionRules":[{"everySeconds":7200,"shardGroupDurationSeconds":3600}]}`, 201, bucket("b/one", "7200", "3600"))
	f("root", "POST", "", `{"name":"b/two"}`, 201, bucket("b/two", "0", "604800"))
	f("root", "POST", "", `{"name":"c"}`, 201, bucket("c/autogen", "0", "604800"))
	f("root", "POST", "", `{"name":"b/two"}`, 422, "bucket with name b/two already exists")
	f("root", "POST", "", `{"name":"b/x","retentionRules":[{"everySeconds":60}]}`, 400, "retention policy duration must be at least 1h0m0s")
	f("root", "POST", "", `{"name":"b/x","retentionRules":[{"everySeconds":-1}]}`, 400, "out of range")
	f("root", "POST", "", `{"name":"b/x","retentionRules":[{},{}]}`, 400, "one retention rule at most")
	f("root", "POST", "", `{"name":"b/x","retentionRules":[{"type":"y"}]}`, 400, `unknown type of retention rule \"y\"`)
	f("root", "POST", "", `{"name":""}`, 400, "missing a slash")
	f("root", "POST", "", `{"name":"/x"}`, 400, "empty database")
	f("root", "POST", "", `{"name":"../x"}`, 400, "invalid name")
	f("root", "POST", "", `{`, 400, "cannot parse bucket")

	f("ann", "PATCH", "/db", `{}`, 403, "administrator required")
	f("root", "PATCH", "/b%2Fone", `{"retentionRules":[{"everySeconds":10800}]}`, 200, bucket("b/one", "10800", "3600"))
	f("root", "PATCH", "/b/one", `{"name":"b/one"}`, 200, bucket("b/one", "10800", "3600"))
	f("root", "PATCH", "/b/one", `{"name":"b/other"}`, 400, "cannot be renamed")
	f("root", "PATCH", "/b/none", `{}`, 404, "bucket not found")
	f("root", "PUT", "/b/one", `{}`, 405, "Method Not Allowed")
	f("root", "GET", "/b%2Fone/owners", "", 405, "bucket owners not supported in this version")
	f("root", "GET", "/b/one/labels/7", "", 405, "bucket labels not supported in this version")
	f("root", "GET", "/b/one/x", "", 404, "page not found")
	f("root", "DELETE", "/b/two", "", 200, "")
	f("root", "DELETE", "/b/two", "", 404, "bucket not found")
	admin.fail = errors.New("disk failed")
	f("root", "DELETE", "/b/one", "", 500, "disk failed")
	if rp := users.data.Load().Database("b").RetentionPolicy("one"); rp == nil || rp.Duration != 3*time.Hour {
		t.Errorf("policy %+v", rp)
	}
}
