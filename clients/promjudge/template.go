package promjudge

import (
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Template is an entry of a file with the queries of the PromQL compliance tester
// (github.com/prometheus/compliance, promql/promql-test-queries.yml).
type Template struct {
	Query      string   `yaml:"query"`
	Variants   []string `yaml:"variant_args"` // its placeholders
	ShouldFail bool     `yaml:"should_fail"`
	Skip       bool     `yaml:"skip_comparison"`
}

// Case is a query, and what is known of its answer.
type Case struct {
	Query      string
	ShouldFail bool
	Skip       bool // only that the query has an answer counts
}

// variants are the texts that a placeholder is replaced by.
var variants = map[string][]string{
	"range":                words("1s 15s 1m 5m 15m 1h"),
	"offset":               words("1m 5m 10m"),
	"simpleAggrOp":         words("sum avg max min count stddev stdvar"),
	"simpleTimeAggrOp":     words("sum avg max min count stddev stdvar absent last"),
	"topBottomOp":          words("topk bottomk"),
	"quantile":             words("-0.5 0.1 0.5 0.75 0.95 0.90 0.99 1 1.5"),
	"arithBinOp":           words("+ - * / % ^"),
	"compBinOp":            words("== != < > <= >="),
	"binOp":                words("+ - * / % ^ == != < > <= >="),
	"simpleMathFunc":       words("abs ceil floor exp sqrt ln log2 log10 round"),
	"extrapolatedRateFunc": words("delta rate increase"),
	"clampFunc":            words("clamp_min clamp_max"),
	"instantRateFunc":      words("idelta irate"),
	"dateFunc":             words("day_of_month day_of_week days_in_month hour minute month year"),
	"smoothingFactor":      words("0.1 0.5 0.8"),
	"trendFactor":          words("0.1 0.5 0.8"),
	// Those of testdata/demo.yml.
	"setOp":    words("and or unless"),
	"trigFunc": words("acos acosh asin asinh atan atanh cos cosh sin sinh tan tanh deg rad sgn"),
	"counted":  words("rate increase irate resets changes"),
	"at":       words("start() end() 1700091000 1700093400.5"),
}

func words(text string) []string { return strings.Fields(text) }

// ParseTemplates reads a file of queries.
func ParseTemplates(file []byte) ([]Template, error) {
	var of struct {
		Cases []Template `yaml:"test_cases"`
	}
	if err := yaml.Unmarshal(file, &of); err != nil {
		return nil, err
	}
	return of.Cases, nil
}

// Cases returns the queries of templates, with all variants of each.
func Cases(templates []Template) ([]Case, error) {
	var all []Case
	for _, t := range templates {
		queries := []string{t.Query}
		for _, name := range t.Variants {
			if len(variants[name]) == 0 {
				return nil, fmt.Errorf("query %q: the placeholder %q is not known", t.Query, name)
			}
			var more []string
			for _, q := range queries {
				for _, word := range variants[name] {
					more = append(more, strings.ReplaceAll(q, "{{."+name+"}}", word))
				}
			}
			queries = more
		}
		for _, q := range queries {
			if strings.Contains(q, "{{") {
				return nil, fmt.Errorf("query %q has a placeholder that is not in its list", q)
			}
			all = append(all, Case{q, t.ShouldFail, t.Skip})
		}
	}
	return all, nil
}
