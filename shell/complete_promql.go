package shell

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// promWords are the words of PromQL that are no functions.
var promWords = []string{
	"avg", "bool", "bottomk", "by", "count", "count_values", "group", "group_left", "group_right", "ignoring", "max", "min",
	"offset", "on", "quantile", "stddev", "stdvar", "sum", "topk", "without",
}

// promFunctions are the functions of PromQL.
var promFunctions = []string{
	"abs", "absent", "absent_over_time", "acos", "acosh", "asin", "asinh", "atan", "atanh", "avg_over_time", "ceil",
	"changes", "clamp", "clamp_max", "clamp_min", "cos", "cosh", "count_over_time", "day_of_month", "day_of_week",
	"day_of_year", "days_in_month", "deg", "delta", "deriv", "double_exponential_smoothing", "end", "exp",
	"first_over_time", "floor", "histogram_avg", "histogram_count", "histogram_fraction", "histogram_quantile",
	"histogram_quantiles", "histogram_stddev", "histogram_stdvar", "histogram_sum", "hour", "idelta", "increase",
	"info", "irate", "label_join", "label_replace", "last_over_time", "ln", "log10", "log2", "mad_over_time",
	"max_of", "max_over_time", "min_of", "min_over_time", "minute", "month", "pi", "predict_linear",
	"present_over_time", "quantile_over_time", "rad", "range", "rate", "resets", "round", "scalar", "sgn", "sin",
	"sinh", "sort", "sort_by_label", "sort_by_label_desc", "sort_desc", "sqrt", "start", "start_timestamp",
	"stddev_over_time", "stdvar_over_time", "step", "sum_over_time", "tan", "tanh", "time", "timestamp",
	"ts_of_first_over_time", "ts_of_last_over_time", "ts_of_max_over_time", "ts_of_min_over_time", "vector", "year",
}

var (
	// promWord is the name at the end of an expression.
	promWord = regexp.MustCompile(`[\p{L}\p{N}_:]*$`)
	// promValue is a matcher whose value has begun: label, and what there is of the value.
	promValue = regexp.MustCompile(`([\p{L}_][\p{L}\p{N}_]*)\s*(?:=|!=|=~|!~)\s*"((?:[^"\\]|\\.)*)$`)
	// promSelector is a selector whose matchers have begun, with the name of its metric.
	promSelector = regexp.MustCompile(`([\p{L}_:][\p{L}\p{N}_:]*)?\s*\{[^{}]*$`)
	// promGrouping is a list of labels that has begun.
	promGrouping = regexp.MustCompile(`\b(?:by|without|on|ignoring|group_left|group_right)\s*\([^()]*$`)
	// promMetric is a selector of an expression, as far as its name.
	promMetric = regexp.MustCompile(`[\p{L}_:][\p{L}\p{N}_:]*`)
)

// completePromQL returns what may stand in place of the last word of an expression: a value
// of a label, a label, or a metric, a function or a word of the language.
func (c *completer) completePromQL(line string) (word string, candidates []string) {
	if m := promValue.FindStringSubmatch(line); m != nil {
		for _, v := range c.labels("label/"+m[1]+"/values", c.metricOf(line)) {
			candidates = append(candidates, strings.TrimSuffix(strings.TrimPrefix(strconv.Quote(v), `"`), `"`)+`"`)
		}
		return m[2], starting(m[2], candidates)
	}
	word = promWord.FindString(line)
	switch {
	case promSelector.MatchString(line) || promGrouping.MatchString(line):
		candidates = c.labels("labels", c.metricOf(line))
	default:
		match := ""
		if word != "" {
			match = fmt.Sprintf(`{__name__=~"(?i)%s.*"}`, word)
		}
		candidates = c.labels("label/"+nameLabel+"/values", match)
		for _, name := range promFunctions {
			candidates = append(candidates, name+"(")
		}
		candidates = append(candidates, promWords...)
		if line == word {
			candidates = append(candidates, commandNames()...)
		}
	}
	candidates = slices.DeleteFunc(slices.Clone(candidates), func(name string) bool { return name == nameLabel })
	return word, starting(word, candidates)
}

// metricOf returns the metric whose matchers have begun at the end of an expression, or the
// first name in it that is no word of the language. "" is any.
func (c *completer) metricOf(line string) string {
	if m := promSelector.FindStringSubmatch(line); m != nil {
		return m[1]
	}
	metric := ""
	for _, name := range promMetric.FindAllString(promGrouping.ReplaceAllString(line, ""), -1) {
		if metric == "" && !slices.Contains(promFunctions, name) && !slices.Contains(promWords, name) {
			metric = name
		}
	}
	return metric
}

// labels returns names of Prometheus' API, of the series that a selector matches.
func (c *completer) labels(path, match string) []string {
	return c.keep(path+" "+match, func(ctx context.Context) ([]string, error) {
		params := c.session.source()
		params.Set("limit", strconv.Itoa(maxNames))
		if match != "" {
			params.Set("match[]", match)
		}
		var answer struct{ Data []string }
		err := c.session.Client.Ask(ctx, http.MethodGet, "/api/v1/"+(&url.URL{Path: path}).EscapedPath(), params, nil, nil, &answer)
		return answer.Data, err
	})
}
