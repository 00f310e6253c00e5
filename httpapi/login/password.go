package login

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"runtime"
	"slices"
	"sync"
	"time"

	"tsdbd/meta"
)

// maxFailedLogins bounds the wrong passwords of one user from one address in a
// second, including passwords that wait to be checked. All unknown names count as
// one user. Further passwords are refused without a check, so that guessing is slow.
const maxFailedLogins = 10

// maxWaitingLogins bounds the passwords that wait to be checked, for users and for
// unknown names each. A check takes 50 ms, so the bound is a minute or more. Later
// clients must try again.
const maxWaitingLogins = 1000

// maxFailedKeys bounds the users and addresses with failures in a second.
const maxFailedKeys = 10_000

// passwords checks passwords. A check takes 50 ms, and clients send the password
// with each request, so passwords remembers each user's last correct password, as a
// keyed hash of the password and of the stored hash. The key exists only in this
// process. A changed password and a dropped user are noticed, because the stored
// hash comes from the present catalog.
type passwords struct {
	checkPassword func(hash, password string) bool
	key           [sha256.Size]byte
	turns         turns
	dummy         func() string // a hash of a random password

	mu struct {
		sync.Mutex
		verified map[string][sha256.Size]byte // by user name
		checking map[passwordKey]*passwordCheck
		pending  map[loginKey]int // checks under way or waiting
		failed   map[loginKey]int
		second   int64 // that failed counts
	}
}

// loginKey is a user and the address of a client. For an unknown name, name is "" and
// known is false.
type loginKey struct {
	known         bool
	name, address string
}

// passwordKey is a user and a keyed hash of the password of a request.
type passwordKey struct {
	name string
	mac  [sha256.Size]byte
}

// passwordCheck is a check in progress. All requests with the same user and password
// wait for one check.
type passwordCheck struct {
	done  chan struct{}
	ended bool // with a result; false if the client left. Valid after done
	right bool
}

func newPasswords(checkPassword func(hash, password string) bool) *passwords {
	l := &passwords{checkPassword: checkPassword}
	l.turns.free = max(1, runtime.GOMAXPROCS(0)/2)
	_, _ = rand.Read(l.key[:]) // it never fails
	l.mu.verified = map[string][sha256.Size]byte{}
	l.mu.checking = map[passwordKey]*passwordCheck{}
	l.mu.pending = map[loginKey]int{}
	l.mu.failed = map[loginKey]int{}
	l.dummy = sync.OnceValue(func() string {
		hash, _ := meta.HashPassword(rand.Text()) // a text it takes
		return hash
	})
	return l
}

// check returns the user of a name if the password is correct. It takes as long for
// an unknown name.
func (l *passwords) check(ctx context.Context, catalog *meta.Data, name, password, address string) (*meta.User, error) {
	u := catalog.User(name)
	if u == nil {
		if _, err := l.verify(ctx, loginKey{address: address}, l.dummy(), password); err != nil {
			return nil, err
		}
		return nil, errFailed
	}
	key := passwordKey{name, l.mac(u, password)}
	for !l.remembers(key) {
		c, mine := l.join(key)
		if !mine {
			select {
			case <-c.done:
			case <-ctx.Done():
				return nil, ctx.Err()
			}
			if c.ended && !c.right {
				return nil, errFailed
			}
			continue
		}
		right, err := l.verify(ctx, loginKey{true, name, address}, u.Hash, password)
		l.leave(catalog, key, c, right, err == nil)
		if err != nil {
			return nil, err
		}
		if !right {
			return nil, errFailed
		}
		break
	}
	return u, nil
}

// join returns the check of a password that is in progress. If there is none, it
// starts one and returns mine: the caller must verify the password and call leave.
func (l *passwords) join(key passwordKey) (c *passwordCheck, mine bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if c := l.mu.checking[key]; c != nil {
		return c, false
	}
	c = &passwordCheck{done: make(chan struct{})}
	l.mu.checking[key] = c
	return c, true
}

// leave ends a check. It remembers a correct password, and forgets dropped users.
func (l *passwords) leave(catalog *meta.Data, key passwordKey, c *passwordCheck, right, ended bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.mu.checking, key)
	c.right, c.ended = right, ended
	close(c.done)
	if !right {
		return
	}
	l.mu.verified[key.name] = key.mac
	if len(l.mu.verified) > len(catalog.Users) {
		for name := range l.mu.verified {
			if catalog.User(name) == nil {
				delete(l.mu.verified, name)
			}
		}
	}
}

// verify waits for its turn and checks a password. It refuses without a check if too
// many passwords of the same key wait or were wrong in this second.
func (l *passwords) verify(ctx context.Context, key loginKey, hash, password string) (right bool, err error) {
	if !l.begin(key) {
		return false, errFailing
	}
	failed := false
	defer func() { l.end(key, failed) }()
	if err := l.turns.enter(ctx, key.known); err != nil {
		return false, err
	}
	defer l.turns.leave()
	right = l.checkPassword(hash, password)
	failed = !right || !key.known
	return right, nil
}

// mac returns the keyed hash of a password and of the user's stored hash.
func (l *passwords) mac(u *meta.User, password string) (sum [sha256.Size]byte) {
	m := hmac.New(sha256.New, l.key[:])
	var n [8]byte
	binary.LittleEndian.PutUint64(n[:], uint64(len(u.Hash)))
	_, _ = m.Write(n[:])
	_, _ = m.Write([]byte(u.Hash))
	_, _ = m.Write([]byte(password))
	m.Sum(sum[:0])
	return sum
}

// remembers reports whether a password is the user's last correct one.
func (l *passwords) remembers(key passwordKey) bool {
	l.mu.Lock()
	have, ok := l.mu.verified[key.name]
	l.mu.Unlock()
	return ok && hmac.Equal(have[:], key.mac[:])
}

// begin reports whether another password of the key may be checked now. If so, the
// caller must call end.
func (l *passwords) begin(key loginKey) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickLocked()
	if l.mu.failed[key]+l.mu.pending[key] >= maxFailedLogins {
		return false
	}
	l.mu.pending[key]++
	return true
}

func (l *passwords) end(key loginKey, failed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.tickLocked()
	if l.mu.pending[key]--; l.mu.pending[key] == 0 {
		delete(l.mu.pending, key)
	}
	if failed && len(l.mu.failed) < maxFailedKeys {
		l.mu.failed[key]++
	}
}

// tickLocked starts a new second.
func (l *passwords) tickLocked() {
	if now := time.Now().Unix(); now != l.mu.second {
		l.mu.second = now
		clear(l.mu.failed)
	}
}

// turns bounds the checks in progress, so that guessing leaves processor time for
// other work. Passwords of users are checked before those of unknown names, each in
// the order of their requests.
type turns struct {
	mu             sync.Mutex
	free           int
	known, unknown []chan struct{} // wait
}

// enter waits for a turn. If it returns nil, the caller must call leave.
func (t *turns) enter(ctx context.Context, known bool) error {
	t.mu.Lock()
	if t.free > 0 {
		t.free--
		t.mu.Unlock()
		return nil
	}
	queue := &t.unknown
	if known {
		queue = &t.known
	}
	if len(*queue) >= maxWaitingLogins {
		t.mu.Unlock()
		return errWaiting
	}
	turn := make(chan struct{})
	*queue = append(*queue, turn)
	t.mu.Unlock()
	select {
	case <-turn:
		return nil
	case <-ctx.Done():
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if i := slices.Index(*queue, turn); i >= 0 {
		*queue = slices.Delete(*queue, i, i+1)
	} else {
		t.passLocked() // the turn has come already
	}
	return ctx.Err()
}

func (t *turns) leave() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.passLocked()
}

// passLocked gives a turn to the next one that waits.
func (t *turns) passLocked() {
	for _, queue := range []*[]chan struct{}{&t.known, &t.unknown} {
		if len(*queue) > 0 {
			close((*queue)[0])
			*queue = (*queue)[1:]
			return
		}
	}
	t.free++
}
