package object

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LeaseOptions say who holds a lease, and for how long. The zero value works.
type LeaseOptions struct {
	// Owner is shown to those who are kept out.
	Owner string
	// Holder is whoever can hold one lease at a time, if that is certain. A lease of the
	// same holder is one that an ended process has left, and is taken over at once.
	Holder string
	// TTL is the age at which others take a lease over, by the clock of the store. Default
	// 5 min. The owner renews it five times in that time.
	TTL time.Duration
}

// ErrHeld is returned by Acquire if another owner has the lease.
var ErrHeld = errors.New("in use")

// ErrLost is returned for a lease that somebody else has taken over.
var ErrLost = errors.New("the lease is lost")

// Lease keeps all other owners out of a store. It is a row of small objects with growing
// numbers in one directory. The newest counts: whoever puts the next number has the lease,
// because a Store takes one Put for each name. The owner renews the lease in the same
// way. A released lease leaves one object behind, so that numbers never begin again: an
// owner that wakes up after a long stop cannot take an old number for a new one.
type Lease struct {
	store Store
	dir   string
	opt   LeaseOptions
	token string
	stop  context.CancelFunc
	ended sync.WaitGroup

	mu struct {
		sync.Mutex
		number  uint64    // of our newest object
		renewed time.Time // when the Put of it began
		lost    error
	}
}

// leaseRecord is the content of an object of a lease.
type leaseRecord struct {
	Owner    string `json:"owner,omitempty"`
	Holder   string `json:"holder,omitempty"`
	Token    string `json:"token"` // of one Acquire
	Released bool   `json:"released,omitempty"`
}

const (
	leaseSuffix      = ".lease"
	leaseRecordBytes = 4 << 10
	leaseAttempts    = 5
	leaseRequestTime = 30 * time.Second // for what is done without a caller
	leaseReleaseTime = 10 * time.Second // for the end, also of a command that is interrupted
)

// Acquire takes the lease in a directory of a store, and renews it until Close. It
// returns ErrHeld if somebody else has it.
func Acquire(ctx context.Context, s Store, dir string, opt LeaseOptions) (*Lease, error) {
	if opt.TTL <= 0 {
		opt.TTL = 5 * time.Minute
	}
	l := &Lease{store: s, dir: dir, opt: opt, token: rand.Text()}
	for range leaseAttempts {
		err := l.acquire(ctx)
		if err == nil {
			keep, stop := context.WithCancel(context.WithoutCancel(ctx))
			l.stop = stop
			l.ended.Go(func() { l.keep(keep) })
			return l, nil
		}
		if !errors.Is(err, ErrLost) && !errors.Is(err, ErrNotFound) {
			return nil, err
		}
		// Others were faster: look again whose it is.
	}
	return nil, fmt.Errorf("%w: other processes take the lease at this moment", ErrHeld)
}

func (l *Lease) acquire(ctx context.Context) error {
	newest, err := l.newest(ctx)
	if err != nil {
		return err
	}
	if newest > 0 {
		r, err := l.read(ctx, newest)
		if err != nil {
			return err
		}
		info, err := l.store.Stat(ctx, l.name(newest))
		if err != nil {
			return err
		}
		left := r.Holder != "" && r.Holder == l.opt.Holder
		if !r.Released && !left && info.Age < l.opt.TTL {
			return fmt.Errorf("%w by %s, which gave a sign of life %s ago; if it has ended, try again in %s", ErrHeld, r.Owner,
				info.Age.Round(time.Second), (l.opt.TTL - info.Age).Round(time.Second))
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.mu.number = newest
	if err := l.next(ctx, false); err != nil {
		return err
	}
	err = l.store.Put(ctx, l.name(l.mu.number), Content{Bytes: l.record(false)})
	if err == nil {
		return fmt.Errorf("%w: it replaces objects though asked not to (If-None-Match), so it cannot keep two writers apart", ErrRefused)
	}
	if !errors.Is(err, ErrExists) {
		return err
	}
	return nil
}

func (l *Lease) name(number uint64) string {
	return path.Join(l.dir, fmt.Sprintf("%016x%s", number, leaseSuffix))
}

func (l *Lease) record(released bool) []byte {
	b, _ := json.Marshal(leaseRecord{l.opt.Owner, l.opt.Holder, l.token, released}) // has only texts
	return b
}

func (l *Lease) read(ctx context.Context, number uint64) (*leaseRecord, error) {
	b, err := Read(ctx, l.store, l.name(number), leaseRecordBytes)
	if err != nil {
		return nil, err
	}
	r := new(leaseRecord)
	if err := json.Unmarshal(b, r); err != nil {
		return nil, fmt.Errorf("%s is not a lease: %w", l.name(number), err)
	}
	return r, nil
}

// newest returns the greatest number that somebody has put, or 0.
func (l *Lease) newest(ctx context.Context) (newest uint64, err error) {
	infos, err := l.store.List(ctx, l.dir)
	for _, i := range infos {
		if text, ok := strings.CutSuffix(path.Base(i.Name), leaseSuffix); ok {
			if n, err := strconv.ParseUint(text, 16, 64); err == nil {
				newest = max(newest, n)
			}
		}
	}
	return newest, err
}

// next puts the next number, and finds out that it is the newest. The lock is held.
func (l *Lease) next(ctx context.Context, release bool) error {
	begin, number := time.Now(), l.mu.number+1
	err := l.store.Put(ctx, l.name(number), Content{Bytes: l.record(release)})
	if errors.Is(err, ErrExists) {
		// An attempt of ours may have arrived whose answer has not.
		r, e := l.read(ctx, number)
		if e != nil && !errors.Is(e, ErrNotFound) {
			return e
		}
		if e != nil || r.Token != l.token {
			return ErrLost
		}
		err = nil
	}
	if err != nil {
		return err
	}
	if err := l.check(ctx, number); err != nil {
		return err
	}
	old := l.mu.number
	l.mu.number, l.mu.renewed = number, begin
	if old > 0 {
		// What stays behind does no harm, and the next owner's number is beyond it.
		_ = l.store.Delete(ctx, l.name(old))
	}
	return nil
}

// check returns ErrLost if there is a newer number.
func (l *Lease) check(ctx context.Context, number uint64) error {
	newest, err := l.newest(ctx)
	if err == nil && newest != number {
		err = ErrLost
	}
	return err
}

// keep renews the lease until the context ends.
func (l *Lease) keep(ctx context.Context) {
	tick := time.NewTicker(l.opt.TTL / 5)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
			_ = l.renew(ctx) // Held tries again and says what is wrong
		}
	}
}

func (l *Lease) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, min(leaseRequestTime, l.opt.TTL/5))
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lost != nil {
		return l.mu.lost
	}
	err := l.next(ctx, false)
	if errors.Is(err, ErrLost) {
		l.mu.lost = err
	}
	return err
}

// Held asks the store whether the lease still is the owner's, and renews it if it has
// become old. It returns ErrLost if somebody else has it. Any other error says that it
// could not find out.
func (l *Lease) Held() error {
	l.mu.Lock()
	lost, number, age := l.mu.lost, l.mu.number, time.Since(l.mu.renewed)
	l.mu.Unlock()
	if lost != nil {
		return lost
	}
	if age > l.opt.TTL/2 {
		return l.renew(context.Background())
	}
	ctx, cancel := context.WithTimeout(context.Background(), min(leaseRequestTime, l.opt.TTL/5))
	defer cancel()
	err := l.check(ctx, number)
	if !errors.Is(err, ErrLost) {
		return err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.number == number {
		l.mu.lost = err
	}
	return l.mu.lost // nil if it was our own renewal
}

// Close releases the lease, if it is not lost.
func (l *Lease) Close() error {
	l.stop()
	l.ended.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), leaseReleaseTime)
	defer cancel()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.lost != nil {
		return nil
	}
	if err := l.next(ctx, true); err != nil && !errors.Is(err, ErrLost) {
		return fmt.Errorf("release lease: %w", err)
	}
	return nil
}
