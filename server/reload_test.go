package server

import (
	"fmt"
	"reflect"
	"testing"

	"tsdbd/config"
)

// TestLimitKeys changes each setting that a reload applies and looks whether it
// gets to where it is kept.
func TestLimitKeys(t *testing.T) {
	limits := func(c *config.Config) string {
		return fmt.Sprintf("%+v %+v %+v %+v %d %v", storeLimits(c), queryLimits(c), promqlLimits(c), httpLimits(c), c.Query.MaxTotalMemory, c.Log.Level)
	}
	applied := 0
	for i, s := range config.Default().Settings() {
		if !s.Reload {
			continue
		}
		applied++
		c, next := config.Default(), config.Default()
		switch v := next.Settings()[i].Value; v.Kind() {
		case reflect.Bool:
			v.SetBool(!v.Bool())
		case reflect.String:
			v.SetString(v.String() + "x")
		default:
			v.SetInt(v.Int() + 4)
		}
		before := limits(c)
		if changes := c.Update(next); len(changes) != 1 || !changes[0].Applied || limits(c) == before {
			t.Errorf("%s gets nowhere: %+v", s.Key, changes)
		}
	}
	if applied < 20 {
		t.Errorf("%d keys", applied)
	}
}
