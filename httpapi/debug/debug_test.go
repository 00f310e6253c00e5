package debug

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"tsdbd/model"
	"tsdbd/query/show"
)

// TestVars holds the names of statistics, of which two may be alike.
func TestVars(t *testing.T) {
	tags := model.Tags{{Key: "bind", Value: ":1"}, {Key: "path", Value: "/x"}, {Key: "proto", Value: "udp"}}
	body, err := Vars("1.8", time.Now(), []show.Statistic{
		{Name: "a", Values: map[string]any{"n": int64(1)}}, {Name: "b", Tags: tags}, {Name: "b", Tags: tags, Values: map[string]any{"n": uint64(3)}},
	})
	if err != nil {
		t.Fatal(err)
	}
	var vars map[string]statistic
	var all map[string]json.RawMessage
	if err := json.Unmarshal(body, &all); err != nil {
		t.Fatal(err)
	}
	vars = map[string]statistic{}
	for _, name := range []string{"a", "b:udp::1", "b:udp::1:1"} {
		var s statistic
		if err := json.Unmarshal(all[name], &s); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		vars[name] = s
	}
	if vars["a"].Values["n"] != 1.0 || vars["a"].Tags == nil || vars["b:udp::1"].Tags["path"] != "/x" || vars["b:udp::1:1"].Values["n"] != 3.0 {
		t.Errorf("%+v", vars)
	}
}

// TestClients watches twice at a time.
func TestClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c Clients
		c.Count(true, func() string { t.Error("nobody watches"); return "" })
		watch := func(wait time.Duration) chan string {
			answer := make(chan string)
			go func() { answer <- string(c.Watch(t.Context(), wait)) }()
			synctest.Wait()
			return answer
		}
		long := watch(2 * time.Minute)
		c.Count(true, func() string { return `ann "a"` })
		short := watch(time.Minute)
		c.Count(false, func() string { return "b" })
		if got := <-short; got != "{\n\"b\": {\"writes\":0,\"queries\":1}\n}\n" {
			t.Errorf("short: %s", got)
		}
		c.Count(false, func() string { return "b" })
		if got := <-long; got != "{\n\"ann \\\"a\\\"\": {\"writes\":1,\"queries\":0},\n\"b\": {\"writes\":0,\"queries\":2}\n}\n" {
			t.Errorf("long: %s", got)
		}
		all := watch(time.Minute)
		for i := range maxClients + 1 {
			c.Count(false, func() string { return fmt.Sprint(i) })
		}
		var seen map[string]any
		if err := json.Unmarshal([]byte(<-all), &seen); err != nil || len(seen) != maxClients {
			t.Errorf("%d clients, %v", len(seen), err)
		}
		ended, end := context.WithCancel(t.Context())
		end()
		if got := string(c.Watch(ended, time.Hour)); got != "{\n}\n" || c.watched.Load() != 0 {
			t.Errorf("after its end: %s", got)
		}
	})
}
