package block

import (
	"strings"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql/parser"
)

// Selector chooses series by their labels.
type Selector []*labels.Matcher

// ParseSelector reads a selector of PromQL, such as up{job="node"}.
func ParseSelector(text string) (Selector, error) {
	return parser.NewParser(parser.Options{}).ParseMetricSelector(text)
}

func (s Selector) matches(set labels.Labels) bool {
	for _, m := range s {
		if !m.Matches(set.Get(m.Name)) {
			return false
		}
	}
	return true
}

// String returns the selector as text.
func (s Selector) String() string {
	parts := make([]string, len(s))
	for i, m := range s {
		parts[i] = m.String()
	}
	return "{" + strings.Join(parts, ",") + "}"
}
