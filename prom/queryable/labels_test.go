package queryable

import (
	"errors"
	"strings"
	"testing"

	"github.com/prometheus/prometheus/storage"
)

func TestLabels(t *testing.T) {
	for _, c := range []struct {
		name, selector string // name "": the names of the labels
		limit          int
		want           string
	}{
		{"", "", 0, "__name__ host job"},
		{"", "", 2, "__name__ host"},
		{"", "up", 0, "__name__ job"},
		{"", `{host="a"}`, 0, "__name__ host"},
		{"", `{host="c"}`, 0, ""},
		{"", `{host="a"}`, 2, "__name__ host"},
		{"", `{job!=""}`, 2, "__name__ job"}, // not the first two of all
		{"__name__", "", 0, "cpu_idle cpu_n cpu_up cpu_user up"},
		{"__name__", `{host=~".+"}`, 3, "cpu_idle cpu_n cpu_up"},
		{"__name__", `{__name__=~"cpu_u.*"}`, 0, "cpu_up cpu_user"},
		{"host", "", 0, "a b"},
		{"host", "", 1, "a"},
		{"host", `{host!="a"}`, 1, "b"},
		{"host", "up", 0, ""},
		{"metric", "", 0, ""},
		{"other", "", 0, ""},
		// Other series of the measurement have the field.
		{"__name__", `{host="b"}`, 0, "cpu_idle cpu_n cpu_up"},
		{"host", "cpu_user", 0, "a"},
		{"host", "cpu_idle", 0, "a b"},
		{"", `cpu_user{host="b"}`, 0, ""},
	} {
		s, _ := newSource(t, points)
		q, err := s.Querier(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		hints := &storage.LabelHints{Limit: c.limit}
		var got []string
		if c.name == "" {
			got, _, err = q.LabelNames(t.Context(), hints, parse(t, c.selector)...)
		} else {
			got, _, err = q.LabelValues(t.Context(), c.name, hints, parse(t, c.selector)...)
		}
		if err := errors.Join(err, q.Close()); err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s of %s, %d: %v %q, want %q", c.name, c.selector, c.limit, err, got, c.want)
		}
	}
}

func TestLabelsRefused(t *testing.T) {
	for n := 1; ; n++ {
		s, l := newSource(t, points)
		l.refuse = n
		q, err := s.Querier(0, 100)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = q.LabelValues(t.Context(), "host", nil, parse(t, `{host!=""}`)...)
		if err == nil {
			_, _, err = q.LabelNames(t.Context(), nil)
		}
		if err == nil {
			err = q.Select(t.Context(), true, &storage.SelectHints{End: 100, Func: "series"}, parse(t, `{host!=""}`)...).Err()
		}
		if err := q.Close(); err != nil {
			t.Fatal(err)
		}
		if l.calls < n {
			if n < 5 || err != nil {
				t.Errorf("%d charges: %v", n, err)
			}
			return
		}
		if !errors.Is(err, errRefused) {
			t.Fatalf("charge %d was refused: %v", n, err)
		}
	}
}
