package httpapi

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"net"
	"net/http"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"tsdbd/meta"
)

// The failed logins of one user from one address that are checked in a second.
// More are refused unseen: a check is slow, and guessing is to be slower.
const maxFailedLogins = 10

// maxWaitingLogins bounds the requests whose password waits to be checked, a
// minute's worth and more. Those who come later are asked to come back.
const maxWaitingLogins = 1000

// maxFailedKeys bounds the memory of the failures of the last second.
const maxFailedKeys = 10_000

// logins checks passwords. A check takes 50 ms, and clients send the password
// with each request, so the last one that was right is remembered for each
// user, as a keyed hash of it and of the stored hash: it is worth nothing
// outside this process, and nothing once the password has changed or the user
// was dropped, for the stored hash is looked up in the present catalog.
type logins struct {
	checkPassword func(hash, password string) bool
	key           [sha256.Size]byte
	// slots bounds the checks under way, so that guessing leaves the machine
	// time for those who are in.
	slots   chan struct{}
	waiting atomic.Int64
	dummy   func() string // a hash no password is known of

	mu struct {
		sync.Mutex
		verified map[string][sha256.Size]byte // by user name
		failed   map[failedKey]int
		second   int64 // that failed counts
	}
}

type failedKey struct{ name, address string }

func newLogins(checkPassword func(hash, password string) bool) *logins {
	l := &logins{checkPassword: checkPassword, slots: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2))}
	_, _ = rand.Read(l.key[:]) // it never fails
	l.mu.verified = map[string][sha256.Size]byte{}
	l.mu.failed = map[failedKey]int{}
	l.dummy = sync.OnceValue(func() string {
		hash, _ := meta.HashPassword(rand.Text()) // a text it takes
		return hash
	})
	return l
}

// check returns the user of that name if the password is the user's. It takes
// as long for a user that does not exist.
func (l *logins) check(ctx context.Context, catalog *meta.Data, name, password, address string) (*meta.User, error) {
	u := catalog.User(name)
	if u != nil && l.remembers(u, password) {
		return u, nil
	}
	if !l.mayTry(name, address) {
		return nil, errTooManyLogins
	}
	defer l.waiting.Add(-1)
	if l.waiting.Add(1) > maxWaitingLogins {
		return nil, errLoginsBusy
	}
	select {
	case l.slots <- struct{}{}:
		defer func() { <-l.slots }()
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if u != nil && l.remembers(u, password) {
		return u, nil // by a request that waited in front of this one
	}
	hash := ""
	if u != nil {
		hash = u.Hash
	} else {
		hash = l.dummy()
	}
	if !l.checkPassword(hash, password) || u == nil {
		l.failed(name, address)
		return nil, errAuthorizationFailed
	}
	l.remember(catalog, u, password)
	return u, nil
}

// mac binds a password to the stored hash it was checked against.
func (l *logins) mac(u *meta.User, password string) (sum [sha256.Size]byte) {
	m := hmac.New(sha256.New, l.key[:])
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(u.Hash)))
	_, _ = m.Write(n[:])
	_, _ = m.Write([]byte(u.Hash))
	_, _ = m.Write([]byte(password))
	m.Sum(sum[:0])
	return sum
}

func (l *logins) remembers(u *meta.User, password string) bool {
	l.mu.Lock()
	have, ok := l.mu.verified[u.Name]
	l.mu.Unlock()
	if !ok {
		return false
	}
	sum := l.mac(u, password)
	return hmac.Equal(have[:], sum[:])
}

// remember notes a password that was right, and forgets users that are gone.
func (l *logins) remember(catalog *meta.Data, u *meta.User, password string) {
	sum := l.mac(u, password)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.verified[u.Name] = sum
	if len(l.mu.verified) > len(catalog.Users) {
		for name := range l.mu.verified {
			if catalog.User(name) == nil {
				delete(l.mu.verified, name)
			}
		}
	}
}

// mayTry reports whether another password for the user is looked at now.
func (l *logins) mayTry(name, address string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickLocked()
	return l.mu.failed[failedKey{name, address}] < maxFailedLogins
}

func (l *logins) failed(name, address string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickLocked()
	if len(l.mu.failed) < maxFailedKeys {
		l.mu.failed[failedKey{name, address}]++
	}
}

// tickLocked begins a new second.
func (l *logins) tickLocked() {
	if now := time.Now().Unix(); now != l.mu.second {
		l.mu.second = now
		clear(l.mu.failed)
	}
}

// clientAddress returns the client's address without its port.
func clientAddress(r *http.Request) string {
	if host, _, err := net.SplitHostPort(r.RemoteAddr); err == nil {
		return host
	}
	return r.RemoteAddr
}
