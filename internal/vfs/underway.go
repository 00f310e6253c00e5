package vfs

import (
	"sync/atomic"
	"time"
)

// UnderWay tells for how long an operation on a disk lasts. One goroutine at a time begins
// and ends operations, any may ask.
type UnderWay struct{ began atomic.Pointer[time.Time] }

// Begin notes that an operation begins. The caller calls end when it has ended.
func (u *UnderWay) Begin() (end func()) {
	now := time.Now()
	u.began.Store(&now)
	return func() { u.began.Store(nil) }
}

// Lasts returns for how long the operation under way has lasted, 0 if there is none.
func (u *UnderWay) Lasts() time.Duration {
	if at := u.began.Load(); at != nil {
		return time.Since(*at)
	}
	return 0
}
