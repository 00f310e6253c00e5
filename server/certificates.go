package server

import (
	"log/slog"
	"sync"

	"tsdbd/internal/certificate"
)

// certificates are those that a server shows.
type certificates struct {
	log *slog.Logger
	mu  struct {
		sync.Mutex
		all []shown
	}
}

// shown is a certificate in use.
type shown struct {
	use string // api, nodes or inputs
	*certificate.Pair
}

// add notes certificates of a use.
func (c *certificates) add(use string, list ...*certificate.Pair) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, pair := range list {
		c.mu.all = append(c.mu.all, shown{use, pair})
	}
}

// reload reads the files of all again. changed has a word for each that is another one.
func (c *certificates) reload() (changed []string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, one := range c.mu.all {
		replaced, err := one.Reload()
		if err != nil {
			c.log.Error("certificate not reloaded, the old one stays", "use", one.use, "err", err)
		}
		if replaced {
			changed = append(changed, "certificate")
		}
	}
	return changed
}
