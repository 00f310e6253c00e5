package encode

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"

	"tsdbd/query"
	"tsdbd/query/admission"
	"tsdbd/query/result"
)

// meter notes the largest write.
type meter struct {
	bytes.Buffer
	largest int
}

func (m *meter) Write(b []byte) (int, error) {
	m.largest = max(m.largest, len(b))
	return m.Buffer.Write(b)
}

// longStrings are longer than any bound of a piece, and have characters of
// several bytes, quotes, and bytes that are not UTF-8 wherever they may be cut.
func longStrings() []string {
	var all []string
	for i := range 12 {
		all = append(all, strings.Repeat("x", i)+strings.Repeat("é日\U0010ffff\"<\xff", 80_000))
	}
	all = append(all, "short", "", strings.Repeat("a", longText), strings.Repeat("a,", longText), strings.Repeat("é", longText/2)+"é", " "+strings.Repeat("\n", longText))
	for range 200 {
		all = append(all, strings.Repeat("several ", longText/9)) // not long one by one
	}
	return all
}

// However long its texts are, an answer is encoded as ever, and the buffer stays
// small.
func TestLongTextsAreEncodedInPieces(t *testing.T) {
	const bound = holdBytes + 12*longRow // texts may grow when they are escaped
	want := longStrings()
	n := len(want)
	result := func() *result.Result {
		times := make([]int64, n)
		number := make([]float64, n)
		all := make([]int, n)
		for i := range n {
			number[i], all[i] = float64(i), i
		}
		nulls := withNulls(texts(make([]string, n)...), all...)
		return &result.Result{Series: []*result.Series{table("m", nil, []string{"time", "f", "s", "null", "again"}, 0,
			ints(times...), floats(number...), texts(want...), nulls, texts(want...))}}
	}
	for _, c := range []struct {
		name string
		make func(*Output) Encoder
		read func(t *testing.T, b []byte) (s, again []string)
	}{
		{"json", func(o *Output) Encoder { return newJSONEncoder(o, 1, false) }, readJSON},
		{"chunked", func(o *Output) Encoder { return newJSONEncoder(o, 1, true) }, readJSON},
		{"pretty", func(o *Output) Encoder { o.indent = new(indenter); return newJSONEncoder(o, 1, false) }, readJSON},
		{"csv", func(o *Output) Encoder { return newCSVEncoder(o, 1) }, func(t *testing.T, b []byte) (s, again []string) {
			rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
			if err != nil {
				t.Fatal(err)
			}
			for i, row := range rows[1:] {
				if row[3] != fmt.Sprint(i) || row[5] != "" {
					t.Errorf("row %d: %q, %q", i, row[3], row[5])
				}
				s, again = append(s, row[4]), append(again, row[6])
			}
			return s, again
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			m := new(meter)
			out := &Output{w: m}
			enc := c.make(out)
			if err := errors.Join(enc.Result(result()), enc.Finish()); err != nil {
				t.Fatal(err)
			}
			if err := out.Flush(); err != nil {
				t.Fatal(err)
			}
			if m.largest > bound || cap(out.buf) > 2*bound || cap(out.scratch) > 2*bound {
				t.Errorf("%d bytes written at once, buffers of %d and %d", m.largest, cap(out.buf), cap(out.scratch))
			}
			s, again := c.read(t, m.Bytes())
			for i := range want {
				text := want[i]
				if c.name != "csv" {
					text = strings.ToValidUTF8(text, "\ufffd")
				}
				if len(s) != n || s[i] != text || again[i] != text {
					t.Fatalf("text %d of %d is not what it was", i, len(s))
				}
			}
		})
	}
}

func readJSON(t *testing.T, b []byte) (s, again []string) {
	var answer struct {
		Results []struct {
			Series []struct{ Values [][]any }
		}
	}
	if err := json.Unmarshal(b, &answer); err != nil {
		t.Fatal(err)
	}
	for i, row := range answer.Results[0].Series[0].Values {
		if row[1] != float64(i) || row[3] != nil {
			t.Errorf("row %d: %v, %v", i, row[1], row[3])
		}
		s, again = append(s, row[2].(string)), append(again, row[4].(string))
	}
	return s, again
}

// An answer that is one document is charged before its memory is taken, and
// given back.
func TestDocumentsAreCharged(t *testing.T) {
	memory := admission.NewMemory(8 << 20)
	account := memory.Open(nil, nil)
	out := &Output{w: io.Discard, limit: maxDocument, opt: Options{Account: account}}
	enc := newMsgpackEncoder(out, 1)
	long := table("m", nil, []string{"time", "s"}, 0, ints(1), texts(strings.Repeat("x", 1<<20)))
	long.Partial = true
	var err error
	n := 0
	for ; err == nil && n < 20; n++ {
		err = enc.Result(&result.Result{Series: []*result.Series{long}, Partial: true})
		if held := memory.Used(); held < int64(cap(out.buf)) {
			t.Fatalf("%d bytes are charged for a buffer of %d", held, cap(out.buf))
		}
	}
	if !errors.Is(err, admission.ErrMemory) || n < 3 || cap(out.buf) > 8<<20 {
		t.Errorf("%v after %d MiB, in a buffer of %d", err, n, cap(out.buf))
	}
	account.Close()
	if memory.Used() != 0 {
		t.Errorf("%d bytes are left", memory.Used())
	}
	out.limit, out.opt.Account, out.buf = 3<<20, nil, nil
	enc = newMsgpackEncoder(out, 1)
	for err = nil; err == nil; {
		err = enc.Result(&result.Result{Series: []*result.Series{long}, Partial: true})
	}
	if err != ErrTooLarge || len(out.buf) > 3<<20 {
		t.Errorf("%v, %d bytes", err, len(out.buf))
	}
}

// Encoding ends soon after the query has, and the answer is still one: rows as
// far as they have been encoded, then the reason.
func TestEncodingEndsWithTheQuery(t *testing.T) {
	const rows = 100 * rowsPerSpill
	for _, c := range []struct {
		name string
		make func(*Output) Encoder
	}{
		{"json", func(o *Output) Encoder { return newJSONEncoder(o, 1, false) }},
		{"chunked", func(o *Output) Encoder { return newJSONEncoder(o, 1, true) }},
		{"csv", func(o *Output) Encoder { return newCSVEncoder(o, 1) }},
		{"msgpack", func(o *Output) Encoder { return newMsgpackEncoder(o, 1) }},
	} {
		for _, after := range []int{0, 1, 3, 60} {
			var sent bytes.Buffer
			asked := 0
			out := &Output{w: &sent, limit: maxDocument, opt: Options{Stopped: func() bool { asked++; return asked > after }}}
			enc := c.make(out)
			err := enc.Result(&result.Result{Series: []*result.Series{table("m", nil, []string{"time", "v"}, 0, ints(make([]int64, rows)...), floats(make([]float64, rows)...))}})
			if err != query.ErrStopped {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := enc.Result(&result.Result{Err: admission.ErrQueryTimeout}); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if err := errors.Join(enc.Finish(), out.Flush()); err != nil {
				t.Fatalf("%s: %v", c.name, err)
			}
			if asked > after+1 {
				t.Errorf("%s: encoded on after the end", c.name)
			}
			text := sent.String()
			switch c.name {
			case "json", "chunked":
				for line := range strings.Lines(text) {
					if !json.Valid([]byte(line)) {
						t.Errorf("%s after %d looks: not JSON: %.60s ... %s", c.name, after, line, line[max(0, len(line)-60):])
					}
				}
				if !strings.Contains(text, admission.ErrQueryTimeout.Error()) {
					t.Errorf("%s after %d looks: the reason is missing", c.name, after)
				}
			case "csv":
				if n := strings.Count(text, "\n"); n != 1+after*rowsPerSpill && !(after == 0 && n <= 1) {
					t.Errorf("csv after %d looks: %d lines", after, n)
				}
			case "msgpack":
				if !strings.Contains(text, admission.ErrQueryTimeout.Error()) || len(text) > 100 {
					t.Errorf("msgpack: %q", text[:min(len(text), 100)])
				}
			}
		}
	}
}

func TestPiecesAreTheText(t *testing.T) {
	for _, s := range longStrings() {
		var got []string
		for p := range pieces(s) {
			if len(p) > longText {
				t.Errorf("a piece of %d bytes", len(p))
			}
			got = append(got, p)
		}
		if strings.Join(got, "") != s || s != "" && slices.Contains(got, "") {
			t.Error("pieces are not the text")
		}
	}
}
