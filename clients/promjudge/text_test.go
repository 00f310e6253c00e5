package promjudge

import (
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/textparse"

	"tsdbd/internal/testkit/testseed"
	"tsdbd/model"
	"tsdbd/model/point"
	"tsdbd/prom"
	"tsdbd/prom/exposition"
)

// TestText reads random lines of the text form by Prometheus' parser and by that of the
// server. What Prometheus reads, the server reads as the same. The server may read more.
// There are no lines without a comma between labels, which Prometheus takes, or with
// blanks before the name, of which it makes a part of the name.
func TestText(t *testing.T) {
	r := rand.New(rand.NewPCG(testseed.Of(t), 1))
	pick := func(from ...string) string { return from[r.IntN(len(from))] }
	blank := func() string { return pick("", "", "", "", " ", "\t ") }
	text := func() string {
		return `"` + pick("", "a", `a\\b`, `\"`, `x\ny`, `\t`, "ü{,} =", "0.5", "#") + pick("", "", "z", `\\`) + `"`
	}
	name := func() string { return pick("up", "a:b", "_x1", "h_bucket") }
	line := func() string {
		var b strings.Builder
		named := r.IntN(6) > 0
		if named {
			b.WriteString(name() + blank())
		}
		if !named || r.IntN(3) > 0 {
			b.WriteString("{")
			if !named && r.IntN(6) > 0 {
				b.WriteString(blank() + pick(`"a.b"`, `"up"`, `"a \"b"`) + blank() + ",")
			}
			for i := range r.IntN(4) {
				if i > 0 {
					b.WriteString(blank() + "," + blank())
				}
				b.WriteString(pick("a", "le", "b_1", `"c d"`, `"e"`) + fmt.Sprint(i) + blank() + pick("=", "=", "=", "=", "=", "") + blank() + text())
			}
			b.WriteString(pick("", "", ",") + blank() + pick("}", "}", "}", "}", "}", "}", ""))
		}
		b.WriteString(pick(" ", "\t", "  ") + pick("1", "-1.5", "1e9", "NaN", "+Inf", "-Inf", "Inf", "0x1p3", "1_0", "x", "1e999", "nan", "infinity", ".5", "5."))
		if r.IntN(2) == 0 {
			b.WriteString(pick(" ", "\t") + pick("1000", "0", "-5", "1.5", "12x"))
		}
		return b.String() + pick("", "", "", " ", " # x")
	}
	read, both, failed := 0, 0, 0
	for range 200_000 {
		text := line()
		want, err := prometheusText(text)
		if err != nil {
			continue
		}
		read++
		if got := serverText(t, text); got != want {
			if strings.HasPrefix(got, "refused") && strings.Contains(text, `\`) {
				continue // line protocol cannot express the label
			}
			t.Errorf("%q:\n got %s\nwant %s", text, got, want)
			if failed++; failed == 10 {
				t.FailNow()
			}
		}
		both++
	}
	if both < 20_000 {
		t.Errorf("only %d lines are compared", both)
	}
	t.Logf("%d of 200,000 lines are of the text form, %d of them are stored", read, both)
}

// prometheusText reads a line by Prometheus' parser.
func prometheusText(line string) (string, error) {
	p := textparse.NewPromParser([]byte(line+"\n"), labels.NewSymbolTable(), false)
	out := ""
	for {
		kind, err := p.Next()
		if errors.Is(err, io.EOF) {
			if out == "" {
				return "", errors.New("no sample")
			}
			return out, nil
		}
		if err != nil {
			return "", err
		}
		if kind != textparse.EntrySeries {
			continue
		}
		_, ms, v := p.Series()
		var ls labels.Labels
		p.Labels(&ls)
		if _, twice := ls.HasDuplicateLabelNames(); twice || !ls.Has(labels.MetricName) {
			return "", errors.New("no series")
		}
		at := int64(7)
		if ms != nil {
			at = *ms
		}
		b := labels.NewScratchBuilder(0)
		ls.Range(func(l labels.Label) {
			if l.Value != "" {
				b.Add(l.Name, l.Value)
			}
		})
		out += fmt.Sprintf("%s %x @%d", b.Labels(), math.Float64bits(v), at)
	}
}

// serverText reads a line by the server's parser.
func serverText(t *testing.T, line string) string {
	batch := &point.Batch{}
	rows := prom.Rows{Builder: point.NewBuilder(point.NewTable(1), batch)}
	_, left, err := exposition.Read([]byte(line), &exposition.Options{Now: 7}, &rows)
	switch {
	case err != nil:
		t.Fatal(err)
	case left.First != nil:
		return left.First.Error()
	case rows.Refused > 0:
		return "refused: " + rows.Reason
	}
	out := ""
	for _, row := range batch.Rows {
		b := labels.NewScratchBuilder(0)
		measurement, tags := model.ParseSeriesKey(row.Series.Key(), nil)
		out += fmt.Sprintf("%s %x @%d", prom.Labels(&b, measurement, tags), batch.Values[row.First], prom.Milliseconds(row.Time))
	}
	return out
}
