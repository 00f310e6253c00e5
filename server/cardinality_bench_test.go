package server

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tsdbd/lineproto"
	"tsdbd/meta"
	"tsdbd/model/point"
	"tsdbd/query"
	"tsdbd/query/result"
	"tsdbd/query/syntax"
	"tsdbd/store"
)

// BenchmarkCardinality asks for cardinalities over a million series, each with
// a host of its own, in one shard and in three, in files and then with a thousand more in memory.
func BenchmarkCardinality(b *testing.B) {
	const series = 1_000_000
	for _, weeks := range []int{1, 3} {
		dir := b.TempDir()
		open := func() *store.Store {
			st, err := store.Open(dir, store.Options{RetentionInterval: -1, SyncInterval: time.Second})
			if err != nil {
				b.Fatal(err)
			}
			return st
		}
		st := open()
		if err := st.Apply(b.Context(), meta.CreateDatabase{Name: "db"}); err != nil {
			b.Fatal(err)
		}
		write := func(week, from, to int) {
			var p lineproto.Parser
			for lo := from; lo < to; lo += 10_000 {
				var body []byte
				for n := lo; n < min(lo+10_000, to); n++ {
					body = fmt.Appendf(body, "m%d,host=h%07d,region=r%d,rack=k%d f=1 %d\n", n%10, n, n%7, n%1000, 1+week*7*24*3600)
				}
				table, err := st.Table("db")
				if err != nil {
					b.Fatal(err)
				}
				var batch point.Batch
				_, err = p.Parse(&batch, table, body, lineproto.Options{Unit: 1e9})
				if err != nil {
					b.Fatal(err)
				}
				for err = store.ErrOverloaded; err == store.ErrOverloaded; {
					if err = st.Write(context.Background(), "db", "", &batch); err == store.ErrOverloaded {
						time.Sleep(50 * time.Millisecond)
					}
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		}
		for week := range weeks {
			write(week, 0, series)
		}
		if err := st.Close(); err != nil { // flushes
			b.Fatal(err)
		}
		st = open()
		e := query.New(query.Options{Storage: st, Admin: engine{Store: st}})
		for _, state := range []string{"files", "both"} {
			if state == "both" { // a few new series in the newest shard
				write(weeks-1, series, series+1000)
			}
			for _, text := range []string{
				`SHOW SERIES CARDINALITY`,
				`SHOW MEASUREMENT CARDINALITY`,
				`SHOW SERIES EXACT CARDINALITY`,
				`SHOW TAG VALUES CARDINALITY WITH KEY = host`,
				`SHOW TAG VALUES EXACT CARDINALITY WITH KEY = host`,
				`SHOW TAG KEY CARDINALITY`,
				`SHOW CARDINALITY`,
				`SHOW CARDINALITY FROM m1`,
				`SHOW CARDINALITY FROM m1 WITH KEY = host`,
				`SHOW CARDINALITY WITH KEY = host`,
			} {
				b.Run(fmt.Sprintf("%dshards/%s/%s", weeks, state, text), func(b *testing.B) {
					for range b.N {
						q, err := syntax.Parse(text, nil)
						if err != nil {
							b.Fatal(err)
						}
						err = e.Execute(b.Context(), q, query.ExecuteOptions{Database: "db"}, func(r *result.Result) error { return r.Err })
						if err != nil {
							b.Fatal(err)
						}
					}
				})
			}
		}
		_ = st.Close()
	}
}
