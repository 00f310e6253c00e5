package engine

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"unsafe"

	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/scan"
	"tsdbd/model/scan/scantest"
	"tsdbd/query/admission"
	"tsdbd/query/engine/read"
	"tsdbd/query/engine/rowset"
	"tsdbd/query/expr"
	"tsdbd/query/result"
)

// textStore has rows of text bytes each, in 4 series.
func textStore(t *testing.T, rows, text int) *scantest.Store {
	m := scantest.New()
	m.Create("d", "autogen")
	var b strings.Builder
	for i := range rows {
		fmt.Fprintf(&b, "m,h=h%d s=\"%s%d\",n=%di %d\n", i%4, strings.Repeat("x", text), i, i, i)
	}
	m.Write(t, "d", "", "s", b.String())
	return m
}

// What a statement keeps of strings counts with the bytes of the strings, so
// that one that needs too much ends.
func TestTextsAreCharged(t *testing.T) {
	const rows, text = 400, 10_000
	m := textStore(t, rows, text)
	for _, q := range []string{
		"SELECT s FROM m", "SELECT s FROM m ORDER BY time DESC", "SELECT * FROM m GROUP BY h", "SELECT s FROM m WHERE n > 3", "SELECT s FROM m LIMIT 300",
		"SELECT sample(s, 300) FROM m", "SELECT distinct(s) FROM m", "SELECT mode(s) FROM m", "SELECT count(distinct(s)) FROM m",
		"SELECT first(s) FROM m WHERE time >= 0s AND time < 400s GROUP BY time(1s)", "SELECT last(s) FROM m WHERE time >= 0s AND time < 400s GROUP BY time(1s)", "SELECT last(n), s FROM m WHERE time >= 0s AND time < 400s GROUP BY time(1s)", "SELECT top(n, 300), s FROM m",
		"SELECT s FROM (SELECT s FROM m)", "SELECT n FROM (SELECT s, n FROM m) WHERE s != ''", "SELECT first(s) FROM (SELECT s FROM m) WHERE time >= 0s AND time < 400s GROUP BY time(1s)",
	} {
		_, err := collectSelect(context.Background(), m, q, Options{MemoryBytes: rows * text / 4})
		if !errors.Is(err, admission.ErrMemory) && !(q == "SELECT n FROM (SELECT s, n FROM m) WHERE s != ''" && err == nil) {
			t.Errorf("%s in a quarter of what it keeps: %v", q, err)
		}
		if _, err := collectSelect(context.Background(), m, q, Options{MemoryBytes: 8 * rows * text}); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
	for _, q := range []string{"SELECT first(s), last(s) FROM m", "SELECT last(s), n FROM m GROUP BY h", "SELECT count(s) FROM m", "SELECT max(n), s FROM m", "SELECT s FROM m LIMIT 3"} {
		if _, err := collectSelect(context.Background(), m, q, Options{MemoryBytes: rows * text / 4}); err != nil {
			t.Errorf("%s keeps little: %v", q, err)
		}
	}
}

// A chunk ends before its rows when its strings are long, and what is not with
// the consumer yet is charged.
func TestChunksOfTexts(t *testing.T) {
	const rows, text = 400, 100_000
	m := textStore(t, rows, text)
	for _, q := range []string{"SELECT s FROM m", "SELECT s, n FROM m GROUP BY h"} {
		memory := admission.NewMemory(1 << 40)
		account := memory.Open(nil, nil)
		stmt, err := parseSelect(m, q)
		if err != nil {
			t.Fatal(err)
		}
		got, parts := 0, 0
		err = Select(context.Background(), stmt, m, Options{
			ChunkSize: 1_000_000, Account: account,
		}, func(r *result.Result) error {
			for _, s := range r.Series {
				n := expr.TextBytes(&s.Values[1], 0, s.Rows)
				if n > chunkText {
					t.Errorf("%s: a chunk of %d rows has %d bytes of strings", q, s.Rows, n)
				}
				if memory.Used() < n {
					t.Errorf("%s: %d bytes are charged, the chunk alone has %d", q, memory.Used(), n)
				}
				got += s.Rows
			}
			parts++
			return nil
		})
		if err != nil || got != rows || parts < rows*text/chunkText || parts > 2*rows*text/chunkText+8 {
			t.Errorf("%s: %v, %d rows in %d chunks", q, err, got, parts)
		}
		account.Close()
		if memory.Used() != 0 {
			t.Errorf("%s: %d bytes are left", q, memory.Used())
		}
	}
}

// SELECT INTO writes what it has gathered when the strings are long.
func TestIntoOfTexts(t *testing.T) {
	const rows, text = 400, 100_000
	m := textStore(t, rows, text)
	largest, written := int64(0), 0
	_, err := collectSelect(context.Background(), m, "SELECT s INTO x FROM m", Options{
		Into: func(_ context.Context, b *result.IntoBatch) error {
			written += len(b.Times)
			largest = max(largest, expr.TextBytes(&b.Columns[0], 0, len(b.Times)))
			return nil
		},
	})
	if err != nil || written != rows || largest > 2*chunkText {
		t.Errorf("%v, %d rows written, %d bytes at once", err, written, largest)
	}
	_, err = collectSelect(context.Background(), m, "SELECT s INTO x FROM m GROUP BY h", Options{
		MemoryBytes: 1 << 20, Into: func(context.Context, *result.IntoBatch) error { return nil },
	})
	if !errors.Is(err, admission.ErrMemory) {
		t.Errorf("in 1 MiB: %v", err)
	}
}

// Few rows of a large chunk do not keep all of its memory.
func TestFewTextsAreCopied(t *testing.T) {
	all := strings.Repeat("x", 1000)
	for _, c := range []struct {
		rows, decoded int
		merged        bool
		want          int64
		copied        bool
	}{{1, 1000, false, 10, true}, {30, 1000, false, 1000, false}, {1, 0, false, 10, false}, {30, 200, true, 300, false}, {30, 200, false, 200, false}} {
		r := &read.ChunkReader{Columns: &read.Columns{Texts: true}, Text: int64(c.decoded), Merged: c.merged}
		rs := &rowset.Set{Cols: []column.Vector{{}, {Type: model.String}}}
		rs.Cols[1].Strings = append(rs.Cols[1].Strings, "before")
		for i := range c.rows {
			rs.Cols[1].Strings = append(rs.Cols[1].Strings, all[i:i+10])
		}
		got := r.OwnTexts(rs, 1)
		before := all[:10]
		shared := stringStart(rs.Cols[1].Strings[1]) == stringStart(before)
		if got != c.want || shared == c.copied {
			t.Errorf("%+v: %d bytes, shared %v", c, got, shared)
		}
	}
}

func stringStart(s string) *byte { return unsafe.StringData(s) }

// holdView has shards whose cursors take memory from Scan to Close.
type holdView struct{ scan.View }

type holdStorage struct{ scan.Storage }

func (s holdStorage) View(db, rp string, r model.TimeRange) (scan.View, error) {
	v, err := s.Storage.View(db, rp, r)
	return holdView{v}, err
}

func (v holdView) Shards() []scan.Shard {
	shards := v.View.Shards()
	for i, s := range shards {
		shards[i] = holdShard{s}
	}
	return shards
}

type holdShard struct{ scan.Shard }

const holdBytes = 1 << 20

func (s holdShard) Charged(charge func(int64) error) scan.Shard {
	return holdShard{s.Shard.Charged(charge)}
}

func (s holdShard) Scan(ctx context.Context, req scan.Request) (scan.Cursor, error) {
	if err := req.Hold(holdBytes); err != nil {
		_ = req.Hold(-holdBytes)
		return nil, err
	}
	cur, err := s.Shard.Scan(ctx, req)
	return holdCursor{cur, req}, err
}

type holdCursor struct {
	scan.Cursor
	req scan.Request
}

func (c holdCursor) Close() {
	_ = c.req.Hold(-holdBytes)
	c.Cursor.Close()
}

// TestCursorsAreCharged has cursors that take much memory for themselves, as those of
// series that very many have become: every kind of statement is charged for it, and only
// while a cursor is open.
func TestCursorsAreCharged(t *testing.T) {
	m := textStore(t, 40, 10)
	run := func(q string, opt Options) error {
		stmt, err := parseSelect(m, q)
		if err != nil {
			t.Fatal(err)
		}
		return Select(t.Context(), stmt, holdStorage{m}, opt, func(*result.Result) error { return nil })
	}
	for _, q := range []string{
		"SELECT n FROM m", "SELECT n FROM m ORDER BY time DESC LIMIT 1", "SELECT mean(n) FROM m", "SELECT last(n) FROM m GROUP BY h", "SELECT s FROM m WHERE n > 3",
		"SELECT count(s) FROM m WHERE time >= 0s AND time < 400s GROUP BY time(1s)", "SELECT max(n) FROM (SELECT n FROM m)",
	} {
		if err := run(q, Options{MemoryBytes: holdBytes}); !errors.Is(err, admission.ErrMemory) {
			t.Errorf("%s in what a cursor takes: %v", q, err)
		}
		if err := run(q, Options{MemoryBytes: 3 * holdBytes, Workers: 1}); err != nil {
			t.Errorf("%s: %v", q, err)
		}
	}
}
