package s3

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tsdbd/internal/object"
	"tsdbd/internal/object/objecttest"
)

const secret = "not-to-be-shown"

func open(t testing.TB, s *objecttest.Server, change func(*Options)) *Store {
	t.Helper()
	opt := Options{
		Endpoint: s.URL, Bucket: objecttest.Bucket, Prefix: "a/b", AccessKey: "key", SecretKey: secret,
		Patience: 3 * time.Second, Stall: 20 * time.Second,
	}
	if change != nil {
		change(&opt)
	}
	st, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	return st
}

func TestContract(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"one piece": nil,
		"parts":     func(o *Options) { o.PartBytes = 100_000 },
		"no prefix": func(o *Options) { o.Prefix = "" },
	} {
		t.Run(name, func(t *testing.T) {
			objecttest.Contract(t, open(t, objecttest.NewServer(t), change), t.TempDir())
		})
	}
}

// TestFaultsThatPass has every second request fail in some way: nothing of it is seen.
func TestFaultsThatPass(t *testing.T) {
	for name, fault := range map[string]func(s *objecttest.Server, w http.ResponseWriter, r *http.Request){
		"503": func(_ *objecttest.Server, w http.ResponseWriter, _ *http.Request) {
			objecttest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		},
		"502 of a proxy": func(_ *objecttest.Server, w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadGateway)
			_, _ = io.WriteString(w, "<html>bad gateway</html>")
		},
		"no answer": func(*objecttest.Server, http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"cut answer": func(s *objecttest.Server, w http.ResponseWriter, r *http.Request) {
			rec := httptest.NewRecorder()
			s.Serve(rec, r)
			for k, v := range rec.Header() {
				w.Header()[k] = v
			}
			w.Header().Set("Content-Length", strconv.Itoa(rec.Body.Len()))
			w.WriteHeader(rec.Code)
			_, _ = w.Write(rec.Body.Bytes()[:rec.Body.Len()/2])
			panic(http.ErrAbortHandler)
		},
		"bytes that change on the way": func(s *objecttest.Server, w http.ResponseWriter, r *http.Request) {
			if b, _ := io.ReadAll(r.Body); r.Method == http.MethodPut {
				r.Body = io.NopCloser(bytes.NewReader(append(b, '!')))
			}
			s.Serve(w, r)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := objecttest.NewServer(t)
			var n atomic.Int64
			s.Fault(func(w http.ResponseWriter, r *http.Request) bool {
				if n.Add(1)%2 == 0 {
					return false
				}
				fault(s, w, r)
				return true
			})
			st := open(t, s, func(o *Options) { o.Patience = time.Minute })
			want := bytes.Repeat([]byte("0123456789"), 100_000)
			for range 2 {
				// The second Put may find what the first has left.
				if err := st.Put(t.Context(), "x", object.Content{Bytes: want}); err != nil && !errors.Is(err, object.ErrExists) {
					t.Fatal(err)
				}
				got, err := object.Read(t.Context(), st, "x", 1<<21)
				if err != nil || !bytes.Equal(got, want) {
					t.Fatalf("read %d bytes, %v", len(got), err)
				}
			}
			if list, err := st.List(t.Context(), ""); err != nil || len(list) != 1 {
				t.Errorf("list %v, %v", list, err)
			}
			if n.Load() < 4 {
				t.Errorf("%d requests only", n.Load())
			}
		})
	}
}

// TestErrors has the bucket refuse for good: the error says why, at once, and holds no
// secret.
func TestErrors(t *testing.T) {
	for _, c := range []struct {
		status     int
		code, body string
		class      error
		want       string
	}{
		{404, "NoSuchBucket", "", object.ErrRefused, "there is no bucket backups at http://127.0.0.1"},
		{403, "AccessDenied", "", object.ErrRefused, "lack the right to list"},
		{403, "InvalidAccessKeyId", "", object.ErrRefused, "wrong credentials"},
		{403, "SignatureDoesNotMatch", "", object.ErrRefused, "wrong credentials"},
		{400, "ExpiredToken", "", object.ErrRefused, "the credentials have expired"},
		{403, "RequestTimeTooSkewed", "", object.ErrRefused, "clock of this machine"},
		{301, "PermanentRedirect", "", object.ErrRefused, "wrong region or endpoint"},
		{400, "AuthorizationHeaderMalformed", "<Region>eu-west-9</Region>", object.ErrRefused, "use -region eu-west-9"},
		{501, "NotImplemented", "", object.ErrRefused, "it cannot do that"},
		{418, "Odd", "", object.ErrRefused, "status 418"},
		{200, "", "<html>welcome to the router</html>", object.ErrRefused, "not that of an object store"},
		{500, "InternalError", "", object.ErrUnreachable, "for the test"},
	} {
		t.Run(c.code, func(t *testing.T) {
			s := objecttest.NewServer(t)
			s.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
				w.WriteHeader(c.status)
				if c.code == "" {
					_, _ = io.WriteString(w, c.body)
				} else {
					_, _ = io.WriteString(w, "<Error><Code>"+c.code+"</Code><Message>for the test</Message>"+c.body+"</Error>")
				}
				return true
			})
			_, err := open(t, s, func(o *Options) { o.Patience = time.Millisecond }).List(t.Context(), "objects")
			if !errors.Is(err, c.class) || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "s3://backups/a/b/objects") {
				t.Errorf("%v, want %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), secret) {
				t.Errorf("the secret is in %v", err)
			}
		})
	}
	s := objecttest.NewServer(t)
	if _, err := open(t, s, func(o *Options) { o.Bucket = "other" }).List(t.Context(), ""); !errors.Is(err, object.ErrRefused) {
		t.Errorf("another bucket: %v", err)
	}
	if _, err := open(t, s, func(o *Options) { o.Endpoint, o.Patience = "http://127.0.0.1:1", time.Millisecond }).List(t.Context(), ""); !errors.Is(err, object.ErrUnreachable) {
		t.Errorf("nobody listens: %v", err)
	}
	if _, err := open(t, s, func(o *Options) { o.Endpoint = strings.Replace(s.URL, "http", "https", 1) }).List(t.Context(), ""); !errors.Is(err, object.ErrRefused) {
		t.Errorf("no TLS: %v", err)
	}
}

// TestStall has a server that sends nothing: the request is given up and tried again.
func TestStall(t *testing.T) {
	s := objecttest.NewServer(t)
	st := open(t, s, func(o *Options) { o.Stall, o.Patience = time.Second, time.Minute })
	want := bytes.Repeat([]byte("x"), 100_000)
	if err := open(t, s, nil).Put(t.Context(), "x", object.Content{Bytes: want}); err != nil {
		t.Fatal(err)
	}
	var n atomic.Int64
	s.Fault(func(w http.ResponseWriter, r *http.Request) bool {
		if n.Add(1) > 2 {
			return false
		}
		if n.Load() == 2 { // in the middle
			w.Header().Set("Content-Length", "100000")
			w.Header().Set("ETag", `"e"`)
			w.Header().Set("Last-Modified", time.Now().UTC().Format(http.TimeFormat))
			_, _ = w.Write(want[:5000])
			w.(http.Flusher).Flush()
		}
		<-r.Context().Done()
		return true
	})
	got, err := object.Read(t.Context(), st, "x", 1<<20)
	if n.Load() < 3 || err == nil && !bytes.Equal(got, want) {
		t.Errorf("%d requests, %d bytes, %v", n.Load(), len(got), err)
	}
	// The object has another tag than the one that the stalled answer named.
	if !errors.Is(err, object.ErrRefused) {
		t.Errorf("an object that was replaced while it was read: %v", err)
	}
}

// TestKeys finds credentials, or says which are missing.
func TestKeys(t *testing.T) {
	for _, v := range []string{"AWS_ACCESS_KEY_ID", "AWS_ACCESS_KEY", "AWS_SECRET_ACCESS_KEY", "AWS_SECRET_KEY", "AWS_PROFILE"} {
		t.Setenv(v, "")
	}
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", t.TempDir()+"/none")
	t.Setenv("AWS_CONFIG_FILE", t.TempDir()+"/none")
	if _, err := Open(Options{Bucket: "b"}); !errors.Is(err, object.ErrRefused) || !strings.Contains(err.Error(), "AWS_ACCESS_KEY_ID") {
		t.Errorf("no credentials: %v", err)
	}
	if _, err := Open(Options{Bucket: "b", AccessKey: "only"}); !errors.Is(err, object.ErrRefused) {
		t.Errorf("half of the credentials: %v", err)
	}
	for _, endpoint := range []string{"ftp://x", "https://user:pw@host", "https://host/path", "http://", "https://host?x"} {
		if _, err := Open(Options{Endpoint: endpoint, Bucket: "b", AccessKey: "a", SecretKey: "b"}); err == nil || strings.Contains(err.Error(), "pw") {
			t.Errorf("endpoint %s: %v", endpoint, err)
		}
	}
	role := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		_, _ = io.WriteString(w, `{"AccessKeyId":"of","SecretAccessKey":"role","Token":"t","Expiration":"2999-01-01T00:00:00Z"}`)
	}))
	defer role.Close()
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", role.URL)
	if _, err := Open(Options{Bucket: "b"}); err != nil {
		t.Errorf("the role of a container: %v", err)
	}
	t.Setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", "")
	t.Setenv("AWS_ACCESS_KEY_ID", "a")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "b")
	if _, err := Open(Options{Bucket: "b"}); err != nil {
		t.Error(err)
	}
}

// TestContextEnds ends a call that waits for its next attempt.
func TestContextEnds(t *testing.T) {
	s := objecttest.NewServer(t)
	ctx, cancel := context.WithCancel(t.Context())
	s.Fault(func(w http.ResponseWriter, _ *http.Request) bool {
		cancel()
		objecttest.Refuse(w, http.StatusServiceUnavailable, "SlowDown")
		return true
	})
	if _, err := open(t, s, func(o *Options) { o.Patience = time.Hour }).Stat(ctx, "x"); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}
