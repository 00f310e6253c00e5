package login

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/meta"
)

// slowLogins checks one password at a time, each in 50 ms, and counts them.
func slowLogins(t *testing.T, users ...string) (*passwords, *meta.Data, *int) {
	t.Helper()
	data := new(meta.Data)
	for _, u := range users {
		var err error
		if data, err = meta.Apply(meta.CreateUser{Name: u, Hash: u + "pw"}, data); err != nil {
			t.Fatal(err)
		}
	}
	checks := 0
	l := newPasswords(func(hash, password string) bool {
		checks++
		time.Sleep(50 * time.Millisecond)
		return hash == password
	})
	l.turns.free = 1
	l.dummy = func() string { return "nobody knows" }
	return l, data, &checks
}

// TestUsersPassUnknownNames floods the logins with names that are no user's,
// from many addresses, right after a start. Every user still gets in at once.
func TestUsersPassUnknownNames(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, data, _ := slowLogins(t, "ann", "bob")
		ctx, end := context.WithCancel(t.Context())
		var flood sync.WaitGroup
		defer flood.Wait()
		defer end()
		for i := range 500 {
			flood.Go(func() {
				_, _ = l.check(ctx, data, fmt.Sprint("nobody", i), "x", fmt.Sprint(i/maxFailedLogins))
			})
		}
		synctest.Wait()
		begin := time.Now()
		for _, u := range []string{"ann", "bob"} {
			if _, err := l.check(t.Context(), data, u, u+"pw", "10.0.0.1"); err != nil {
				t.Errorf("%s: %v", u, err)
			}
		}
		if took := time.Since(begin); took > 200*time.Millisecond {
			t.Errorf("two users waited %v for their first login", took)
		}
	})
}

// TestUnknownNamesOfAnAddress bounds guesses by address, whatever name they
// come with.
func TestUnknownNamesOfAnAddress(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, data, checks := slowLogins(t)
		answers := make(chan error, 300)
		for i := range 300 {
			go func() {
				_, err := l.check(t.Context(), data, fmt.Sprint("nobody", i), "x", "10.0.0.1")
				answers <- err
			}()
		}
		refused := 0
		for range 300 {
			switch err := <-answers; err {
			case errFailing:
				refused++
			case errFailed:
			default:
				t.Fatal(err)
			}
		}
		if refused != 300-maxFailedLogins || *checks != maxFailedLogins {
			t.Errorf("%d of 300 were refused and %d checked, want %d checked", refused, *checks, maxFailedLogins)
		}
	})
}

// TestOneCheckForOnePassword has many clients log in as one user at a time, as
// agents do after a restart.
func TestOneCheckForOnePassword(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, data, checks := slowLogins(t, "agent")
		ask := func(ctx context.Context, password string, n int) map[error]int {
			answers := make(chan error, n)
			for range n {
				go func() {
					_, err := l.check(ctx, data, "agent", password, "10.0.0.1")
					answers <- err
				}()
			}
			got := map[error]int{}
			for range n {
				got[<-answers]++
			}
			return got
		}
		if got := ask(t.Context(), "wrong", 200); got[errFailed] != 200 || *checks != 1 {
			t.Errorf("wrong password: %v after %d checks", got, *checks)
		}
		// The client whose request began the check leaves; another takes over.
		first, leave := context.WithCancel(t.Context())
		l.turns.free = 0
		left := make(chan error)
		go func() {
			_, err := l.check(first, data, "agent", "agentpw", "10.0.0.1")
			left <- err
		}()
		synctest.Wait()
		time.AfterFunc(time.Second, leave)
		time.AfterFunc(time.Minute, l.turns.leave)
		if got := ask(t.Context(), "agentpw", 200); got[nil] != 200 || *checks != 2 {
			t.Errorf("right password: %v after %d checks", got, *checks)
		}
		if err := <-left; err != context.Canceled {
			t.Errorf("the client that left: %v", err)
		}
	})
}
