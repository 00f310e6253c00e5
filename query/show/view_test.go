package show

import (
	"testing"

	"github.com/influxdata/influxql"

	"tsdbd/model"
)

func TestMetaPredicateAgreesWithMatch(t *testing.T) {
	sets := []model.Tags{nil, {{Key: "a", Value: "x"}}, {{Key: "a", Value: "y"}, {Key: "b", Value: "z"}}}
	for _, c := range []struct {
		where string
		want  [3]bool
	}{
		{`a = 'x'`, [3]bool{false, true, false}},
		{`a != 'x'`, [3]bool{true, false, true}},
		{`a = ''`, [3]bool{true, false, false}},
		{`'z' = b OR a = 'x'`, [3]bool{false, true, true}},
		{`(a =~ /./ AND b !~ /z/)`, [3]bool{false, true, false}},
		{`_name = 'm'`, [3]bool{true, true, true}},
		{`_name = 'n'`, [3]bool{false, false, false}},
		{`_name = 'n' OR b = 'z'`, [3]bool{false, false, true}},
		{`_tagKey = 'q' AND a = 'y'`, [3]bool{false, false, true}},
		{`true`, [3]bool{true, true, true}},
		{`false OR a = 'x'`, [3]bool{false, true, false}},
	} {
		where, err := influxql.ParseExpr(c.where)
		if err != nil {
			t.Fatal(err)
		}
		p, err := metaPredicate(where, ofName("m"))
		if err != nil {
			t.Fatal(err)
		}
		for i, tags := range sets {
			if p.Match(tags) != c.want[i] {
				t.Errorf("%s of %v: %v", c.where, tags, !c.want[i])
			}
		}
	}
}
