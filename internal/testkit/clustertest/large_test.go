//go:build linux

package clustertest

import (
	"flag"
	"fmt"
	"strings"
	"testing"

	"tsdbd/internal/testkit/testseed"
)

var largeMB = flag.Int("large-mb", 21, "size of each of the eight bodies of TestLargeWrites")

// largeBody is a body of about so many bytes: rows of 5,000, each body with times of its own.
func largeBody(number, size int) (body string, rows int) {
	var b strings.Builder
	for ; b.Len() < size; rows++ {
		text := strings.Repeat(fmt.Sprintf("%c%d,", 'a'+(number+rows)%26, rows*7919+number), 5000/8)
		fmt.Fprintf(&b, "large,host=h%d text=\"%.5000s\" %d\n", rows%50, text, number*1_000_000+rows)
	}
	return b.String(), rows
}

// TestLargeWrites sends eight large bodies through a follower at once. The leader stays the
// leader, and takes no more than three times their bytes, with all that it has stored. A
// busy machine may stop all processes for seconds; it does not do so each time.
func TestLargeWrites(t *testing.T) {
	t.Parallel()
	for range 3 {
		if largeWrites(t) || t.Failed() {
			return
		}
	}
	t.Error("the leader changed each time")
}

// largeWrites reports whether the leader has stayed.
func largeWrites(t *testing.T) (stayed bool) {
	c := start(t, setup{nodes: 3, env: []string{"TSDBD_CLUSTER_ELECTION_TIMEOUT=10s", "TSDBD_DATA_FLUSH_SIZE=8MiB", "TSDBD_CLUSTER_LOG_MAX_SIZE=64MiB"}})
	c.nodes[0].must("", "CREATE DATABASE db")
	c.healthy()
	size := int64(*largeMB) * 1_000_000
	if testseed.Race {
		size /= 7
	}
	leader := c.leader()
	follower := c.others(leader)[0]
	term := func() uint64 {
		s, err := leader.status()
		if err != nil {
			t.Fatal(err)
		}
		return s.Term
	}
	before := term()
	failed := make(chan error, 8)
	rows := 0
	for number := range cap(failed) {
		body, n := largeBody(number, int(size))
		rows += n
		go func() { failed <- follower.insist("db", body) }()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	now := term()
	if stayed = now == before && c.leader() == leader; !stayed {
		t.Logf("%s led in term %d, now it is term %d", leader.name, before, now)
	}
	if n, err := c.leader().count("db", "SELECT count(text) FROM large", 0); err != nil || n != int64(rows) {
		t.Errorf("%d of %d rows: %v", n, rows, err)
	}
	for _, n := range c.nodes {
		most := n.Status("VmHWM")
		t.Logf("%s: %d MiB of memory at most", n.name, most>>20)
		if n == leader && most > 3*int64(cap(failed))*size && !testseed.Race {
			t.Errorf("the leader took %d MiB for %d bodies of %d bytes", most>>20, cap(failed), size)
		}
	}
	c.verify()
	c.stop()
	return stayed
}
