package s3

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"net/url"
	"path"
	"strings"
	"sync/atomic"
	"time"

	"github.com/minio/minio-go/v7"
	"github.com/minio/minio-go/v7/pkg/credentials"
	"golang.org/x/sync/errgroup"

	"tsdbd/internal/object"
	"tsdbd/internal/version"
)

// Options say where the bucket is and who asks. Only Bucket is needed.
type Options struct {
	Endpoint string // URL, or a host with TLS; "" is Amazon
	Region   string // default us-east-1
	Bucket   string
	Prefix   string // of all names, without a slash at the end
	// PathStyle puts the bucket into the path of URLs. Otherwise the host of Amazon, and of
	// others that need it, gets it.
	PathStyle bool
	// AccessKey, SecretKey and SessionToken are the credentials. Without AccessKey those
	// of the environment (AWS_ACCESS_KEY_ID and others), of the files in ~/.aws, and of
	// the role of a container are taken, in this order.
	AccessKey, SecretKey, SessionToken string
	// Patience is how long a call is tried; default 2 min. Until the bucket has answered
	// once it is 10 s at most.
	Patience time.Duration
	// Stall is how long a request may move no byte; default 1 min.
	Stall time.Duration
	// PartBytes is the size of the parts of large objects; default 64 MiB.
	PartBytes int64
	Transport http.RoundTripper // default one of its own
}

// Store is a bucket, or what is below a prefix of it.
type Store struct {
	opt     Options
	core    minio.Core
	where   string      // for messages
	reached atomic.Bool // it has answered
}

// shaKey is the user metadata that holds the SHA-256 of an object.
const shaKey = "Sha256"

// Open returns the store. It sends nothing to the bucket.
func Open(opt Options) (*Store, error) {
	endpoint, secure, err := endpoint(opt.Endpoint)
	if err != nil {
		return nil, err
	}
	if opt.Bucket == "" {
		return nil, errors.New("no bucket is named: s3://BUCKET/PREFIX")
	}
	if opt.Region == "" {
		opt.Region = "us-east-1"
	}
	if opt.Patience <= 0 {
		opt.Patience = 2 * time.Minute
	}
	if opt.Stall <= 0 {
		opt.Stall = time.Minute
	}
	if opt.PartBytes <= 0 {
		opt.PartBytes = 64 << 20
	}
	lookup := minio.BucketLookupAuto
	if opt.PathStyle {
		lookup = minio.BucketLookupPath
	}
	transport := opt.Transport
	if transport == nil {
		if transport, err = minio.DefaultTransport(secure); err != nil {
			return nil, err
		}
	}
	keys, err := findKeys(&opt)
	if err != nil {
		return nil, err
	}
	s := &Store{opt: opt, where: "s3://" + path.Join(opt.Bucket, opt.Prefix)}
	client, err := minio.New(endpoint, &minio.Options{
		Creds: keys, Secure: secure, Region: opt.Region, BucketLookup: lookup, MaxRetries: 1,
		Transport: &dated{transport},
	})
	if err != nil {
		return nil, fmt.Errorf("object store %s: %w", opt.Endpoint, err)
	}
	client.SetAppInfo("tsdbd", version.String())
	s.core = minio.Core{Client: client}
	return s, nil
}

// endpoint splits the URL of a server.
func endpoint(text string) (host string, secure bool, err error) {
	if text == "" {
		return "s3.amazonaws.com", true, nil
	}
	if !strings.Contains(text, "://") {
		text = "https://" + text
	}
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || strings.Trim(u.Path, "/") != "" || u.RawQuery != "" || u.User != nil {
		return "", false, errors.New("the endpoint of an object store is a URL such as https://s3.example.org:9000, without a path or a login")
	}
	return u.Host, u.Scheme == "https", nil
}

// findKeys returns the credentials of the options, or of the environment.
func findKeys(opt *Options) (*credentials.Credentials, error) {
	if (opt.AccessKey == "") != (opt.SecretKey == "") {
		return nil, fmt.Errorf("%w: an access key and a secret key belong together, and one of them is missing", object.ErrRefused)
	}
	if opt.AccessKey != "" {
		return credentials.NewStaticV4(opt.AccessKey, opt.SecretKey, opt.SessionToken), nil
	}
	providers := []credentials.Provider{&credentials.EnvAWS{}, &credentials.FileAWSCredentials{}}
	if roleOfContainer() {
		providers = append(providers, &credentials.IAM{})
	}
	keys := credentials.NewChainCredentials(providers)
	v, err := keys.GetWithContext(&credentials.CredContext{Client: &http.Client{Timeout: 10 * time.Second}})
	if err != nil {
		return nil, fmt.Errorf("%w: credentials: %w", object.ErrRefused, err)
	}
	if v.AccessKeyID == "" || v.SecretAccessKey == "" {
		return nil, fmt.Errorf("%w: no credentials: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or write ~/.aws/credentials", object.ErrRefused)
	}
	return keys, nil
}

func (s *Store) key(name string) string { return path.Join(s.opt.Prefix, name) }

// Put implements object.Store.
func (s *Store) Put(ctx context.Context, name string, c object.Content) error {
	var from io.ReaderAt
	var size int64
	if c.Path != "" {
		f, err := c.FS.Open(c.Path)
		if err != nil {
			return err
		}
		defer f.Close()
		if size, err = f.Size(); err != nil {
			return err
		}
		from = f
	} else {
		from, size = bytes.NewReader(c.Bytes), int64(len(c.Bytes))
	}
	var err error
	if size <= s.opt.PartBytes {
		err = s.putWhole(ctx, name, from, size, &c)
	} else {
		err = s.putParts(ctx, name, from, size, &c)
	}
	if err != nil || c.Path == "" || c.Keep {
		return err
	}
	return c.FS.Remove(c.Path)
}

// putOptions are those of all objects.
func putOptions(sum string) minio.PutObjectOptions {
	opt := minio.PutObjectOptions{DisableContentSha256: true, UserMetadata: map[string]string{}}
	if sum != "" {
		opt.UserMetadata[shaKey] = sum
	}
	opt.SetMatchETagExcept("*")
	return opt
}

func (s *Store) putWhole(ctx context.Context, name string, from io.ReaderAt, size int64, c *object.Content) error {
	sum := c.SHA256
	if sum == "" {
		h := sha256.New()
		if _, err := io.Copy(h, io.NewSectionReader(from, 0, size)); err != nil {
			return err
		}
		sum = hex.EncodeToString(h.Sum(nil))
	}
	return s.try(ctx, "put", name, func(ctx context.Context, moved func()) error {
		_, err := s.core.PutObject(ctx, s.opt.Bucket, s.key(name), c.Paced(ctx, watched(from, 0, size, moved)), size, "", sum, putOptions(sum))
		return err
	})
}

// putParts sends a large object. The condition counts when the parts become the
// object. Servers that ignore it there still are asked beforehand.
func (s *Store) putParts(ctx context.Context, name string, from io.ReaderAt, size int64, c *object.Content) (err error) {
	want := c.SHA256
	if _, err := s.Stat(ctx, name); err == nil {
		return s.failure("put", name, object.ErrExists, "")
	} else if !errors.Is(err, object.ErrNotFound) {
		return err
	}
	var upload string
	begin := putOptions(want)
	err = s.try(ctx, "put", name, func(ctx context.Context, _ func()) (err error) {
		opt := minio.PutObjectOptions{UserMetadata: begin.UserMetadata}
		upload, err = s.core.NewMultipartUpload(ctx, s.opt.Bucket, s.key(name), opt)
		return err
	})
	if err != nil {
		return err
	}
	defer func() {
		if err != nil { // the parts take room until then
			end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
			defer cancel()
			_ = s.core.AbortMultipartUpload(end, s.opt.Bucket, s.key(name), upload)
		}
	}()
	whole := sha256.New()
	var parts []minio.CompletePart
	partBytes := max(s.opt.PartBytes, (size+9999)/10000) // a bucket takes 10,000 parts
	for at := int64(0); at < size; at += partBytes {
		n := min(partBytes, size-at)
		sum, err := sumRange(from, at, n, whole)
		if err != nil {
			return err
		}
		number := len(parts) + 1
		err = s.try(ctx, "put a part of", name, func(ctx context.Context, moved func()) error {
			p, err := s.core.PutObjectPart(ctx, s.opt.Bucket, s.key(name), upload, number, c.Paced(ctx, watched(from, at, n, moved)), n,
				minio.PutObjectPartOptions{Sha256Hex: sum, DisableContentSha256: true})
			if err == nil {
				parts = append(parts[:number-1], minio.CompletePart{PartNumber: number, ETag: p.ETag})
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	if have := hex.EncodeToString(whole.Sum(nil)); want != "" && have != want {
		return fmt.Errorf("put %s: the file changed while it was sent: SHA-256 %s, it was %s", s.name(name), have, want)
	}
	var end minio.PutObjectOptions
	end.SetMatchETagExcept("*")
	return s.try(ctx, "complete", name, func(ctx context.Context, _ func()) error {
		_, err := s.core.CompleteMultipartUpload(ctx, s.opt.Bucket, s.key(name), upload, parts, end)
		if minio.ToErrorResponse(err).Code == "NoSuchUpload" {
			// An attempt may have arrived whose answer has not.
			if info, e := s.Stat(ctx, name); e == nil && info.Size == size && info.SHA256 == want {
				return nil
			}
		}
		return err
	})
}

// sumRange returns the SHA-256 of a part, and adds the part to whole.
func sumRange(from io.ReaderAt, at, n int64, whole hash.Hash) (string, error) {
	h := sha256.New()
	if _, err := io.Copy(io.MultiWriter(h, whole), io.NewSectionReader(from, at, n)); err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// watched reads a range and says when bytes move.
func watched(from io.ReaderAt, at, n int64, moved func()) io.Reader {
	return &watchedReader{object.Remaining(io.NewSectionReader(from, at, n), n), moved}
}

type watchedReader struct {
	io.Reader
	moved func()
}

func (r *watchedReader) Read(p []byte) (int, error) {
	r.moved()
	return r.Reader.Read(p)
}

// Stat implements object.Store.
func (s *Store) Stat(ctx context.Context, name string) (info object.Info, err error) {
	err = s.try(ctx, "stat", name, func(ctx context.Context, _ func()) error {
		var now time.Time
		st, err := s.core.Client.StatObject(context.WithValue(ctx, dateKey{}, &now), s.opt.Bucket, s.key(name), minio.StatObjectOptions{})
		info = object.Info{Name: name, Size: st.Size, SHA256: st.UserMetadata[shaKey], Age: max(now.Sub(st.LastModified), 0)}
		if now.IsZero() {
			info.Age = 0 // it does not say what time it is there
		}
		return err
	})
	return info, err
}

// List implements object.Store.
func (s *Store) List(ctx context.Context, dir string) (out []object.Info, err error) {
	prefix := s.key(dir)
	if prefix != "" {
		prefix += "/"
	}
	last := ""
	err = s.try(ctx, "list", dir, func(ctx context.Context, moved func()) error {
		ctx, cancel := context.WithCancel(ctx)
		defer cancel() // ends the listing
		for o := range s.core.Client.ListObjects(ctx, s.opt.Bucket, minio.ListObjectsOptions{Prefix: prefix, StartAfter: last}) {
			if o.Err != nil {
				return o.Err
			}
			moved()
			if strings.HasSuffix(o.Key, "/") || o.Key <= last {
				continue
			}
			last = o.Key
			out = append(out, object.Info{Name: path.Join(dir, strings.TrimPrefix(o.Key, prefix)), Size: o.Size})
		}
		return ctx.Err()
	})
	return out, err
}

// deletes is how many objects are deleted at a time.
const deletes = 8

// Delete implements object.Store.
func (s *Store) Delete(ctx context.Context, names ...string) error {
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(deletes)
	for _, name := range names {
		group.Go(func() error {
			return s.try(ctx, "delete", name, func(ctx context.Context, _ func()) error {
				err := s.core.Client.RemoveObject(ctx, s.opt.Bucket, s.key(name), minio.RemoveObjectOptions{})
				if minio.ToErrorResponse(err).Code == minio.NoSuchKey {
					return nil
				}
				return err
			})
		})
	}
	return group.Wait()
}

// dated is a transport that notes what time it is at the server, for those who ask. It
// refuses pages for browsers, which would pass for a bucket without objects.
type dated struct{ http.RoundTripper }

type dateKey struct{}

func (d *dated) RoundTrip(r *http.Request) (*http.Response, error) {
	resp, err := d.RoundTripper.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if to, ok := r.Context().Value(dateKey{}).(*time.Time); ok {
		*to, _ = http.ParseTime(resp.Header.Get("Date"))
	}
	if resp.StatusCode < 300 && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/html") {
		return nil, errors.Join(fmt.Errorf("%w: the answer is a page for browsers, not that of an object store", object.ErrRefused), resp.Body.Close())
	}
	return resp, nil
}
