package admission

import (
	"context"
	"fmt"
	"sync/atomic"
)

// Claim is what one statement holds of an Account. It is safe for concurrent use. A
// nil Claim has no bound.
type Claim struct {
	ctx     context.Context
	account *Account
	turn    *Turn
	limit   int64
	kept    atomic.Int64 // by Keep
	charged atomic.Int64 // what the account knows of
}

// Claim returns a Claim of at most limit bytes; 0 and less is no limit. It waits for
// memory outside turn. The caller must release it. The account may be nil.
func (a *Account) Claim(ctx context.Context, turn *Turn, limit int64) *Claim {
	return &Claim{ctx: ctx, account: a, turn: turn, limit: limit}
}

// Set charges bytes instead of what the claim held. An error says that they are
// too many.
func (c *Claim) Set(bytes int64) error {
	if c == nil {
		return nil
	}
	if c.limit > 0 && bytes > c.limit {
		return fmt.Errorf("%w: needs more than %d bytes", ErrMemory, c.limit)
	}
	return c.account.set(c.ctx, c.turn, &c.charged, bytes)
}

// Keep charges n more bytes until the claim is released.
func (c *Claim) Keep(n int64) error {
	if c == nil || n == 0 {
		return nil
	}
	return c.Set(c.kept.Add(n))
}

// Held returns the bytes that the claim holds.
func (c *Claim) Held() int64 { return c.charged.Load() }

// Release gives everything back.
func (c *Claim) Release() {
	_ = c.account.set(c.ctx, c.turn, &c.charged, 0) // giving back never fails
}
