package server

import (
	"fmt"
	"reflect"
	"testing"

	"tsdbd/config"
)

// TestLimitKeys sets each limit and looks whether it gets to where it is kept.
func TestLimitKeys(t *testing.T) {
	limits := func(c *config.Config) string {
		return fmt.Sprintf("%+v %+v %+v %d", storeLimits(c), queryLimits(c), httpLimits(c), c.Query.MaxTotalMemory)
	}
	for key := range limitKeys {
		c := config.Default()
		before := limits(c)
		if v := c.Value(key); v.Kind() == reflect.Bool {
			v.SetBool(!v.Bool())
		} else {
			v.SetInt(v.Int() + 1)
		}
		if limits(c) == before {
			t.Errorf("%s gets nowhere", key)
		}
	}
}
