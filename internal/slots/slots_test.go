package slots

import (
	"slices"
	"sync"
	"testing"
)

// numbers returns the numbers of a hash.
func numbers(t *Table, hash uint32) (found []uint32) {
	for pos := -1; ; {
		n := t.Next(hash, &pos)
		if n == 0 {
			return found
		}
		found = append(found, n)
	}
}

// TestTable fills a table with hashes that share their places, at both ends of
// it, and compares it with a map.
func TestTable(t *testing.T) {
	var table *Table
	want := map[uint32][]uint32{}
	for n := uint32(1); n <= 5000; n++ {
		hash := []uint32{0, n / 7, n * 2654435761, 1<<32 - 1 - n%11}[n%4]
		want[hash] = append(want[hash], n)
		table = table.Room()
		table.Insert(Slot(hash, n))
		table.Insert(Slot(hash, n)) // again: nothing changes
	}
	if table.Len() != 5000 || table.Bytes() > 8*5000*3 || len(table.All()) != 5000 {
		t.Fatalf("%d slots in %d bytes", table.Len(), table.Bytes())
	}
	for hash, list := range want {
		got := numbers(table, hash)
		slices.Sort(got)
		if !slices.Equal(got, list) {
			t.Fatalf("hash %d has %v, want %v", hash, got, list)
		}
	}
	for _, none := range []*Table{nil, (*Table)(nil).Room()} {
		if none.Len() != 0 || len(none.All()) != 0 || numbers(none, 7) != nil {
			t.Fatal("an empty table is not empty")
		}
	}
	if got := numbers(table, 12345678); got != nil {
		t.Fatalf("a hash that is not there has %v", got)
	}
}

// TestTableReaders looks up while slots are inserted.
func TestTableReaders(t *testing.T) {
	table := (*Table)(nil).Room()
	var wg sync.WaitGroup
	for hash := uint32(1); hash <= 8; hash++ {
		wg.Go(func() {
			for {
				if got := numbers(table, hash); len(got) > 0 {
					if got[0] != hash+100 {
						t.Errorf("hash %d has %v", hash, got)
					}
					return
				}
			}
		})
	}
	for hash := uint32(1); hash <= 8; hash++ {
		table.Insert(Slot(hash, hash+100))
	}
	wg.Wait()
}
