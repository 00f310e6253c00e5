package promjudge

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"

	"github.com/prometheus/prometheus/promql/parser"
)

// Expressions makes random PromQL over a dataset.
type Expressions struct {
	r    *rand.Rand
	data *Dataset
	// Parser says which syntax may be used.
	options parser.Options
	vector  []*parser.Function // from a vector, and scalars and strings
	ranged  []*parser.Function // from a range vector, and scalars
	scalar  []*parser.Function
}

// NewExpressions returns a source of expressions that a parser with the options takes.
func NewExpressions(r *rand.Rand, data *Dataset, options parser.Options) *Expressions {
	e := &Expressions{r: r, data: data, options: options}
	for _, name := range slices.Sorted(maps.Keys(parser.Functions)) {
		f := parser.Functions[name]
		switch {
		case f.Experimental && !options.EnableExperimentalFunctions:
		case f.ReturnType == parser.ValueTypeScalar:
			e.scalar = append(e.scalar, f)
		case slices.Contains(f.ArgTypes, parser.ValueTypeMatrix):
			e.ranged = append(e.ranged, f)
		default:
			e.vector = append(e.vector, f)
		}
	}
	return e
}

// Next returns an expression.
func (e *Expressions) Next() string {
	switch e.r.IntN(10) {
	case 0:
		return e.Scalar(2)
	case 1, 2, 3:
		return e.panel()
	case 4:
		return e.selector()
	default:
		return e.Vector(1 + e.r.IntN(3))
	}
}

// panel returns what dashboards ask: the shapes that a server has shortcuts for.
func (e *Expressions) panel() string {
	ranged := func() string {
		hot := []string{"rate", "rate", "increase", "delta", "irate", "idelta", "sum_over_time", "avg_over_time", "min_over_time", "max_over_time", "count_over_time", "last_over_time", "present_over_time", "changes", "resets", "stddev_over_time", "quantile_over_time", "deriv"}
		return e.call(parser.Functions[one(e.r, hot)], 0)
	}
	aggregated := func(of string) string {
		op := one(e.r, []string{"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar"})
		switch e.r.IntN(4) {
		case 0:
			return op + "(" + of + ")"
		case 1:
			return op + "(" + of + ") " + e.grouping()
		default:
			return op + " " + e.grouping() + " (" + of + ")"
		}
	}
	switch e.r.IntN(9) {
	case 0, 1:
		return aggregated(ranged())
	case 2:
		return aggregated(e.selector())
	case 3:
		return ranged()
	case 4:
		return fmt.Sprintf("%s(%d, %s)", one(e.r, []string{"topk", "bottomk"}), 1+e.r.IntN(5), ranged())
	case 5:
		g := e.grouping()
		return fmt.Sprintf("sum %s (%s) %s sum %s (%s)", g, ranged(), one(e.r, []string{"/", "-", "> bool", ">"}), g, ranged())
	case 6:
		return fmt.Sprintf("histogram_quantile(%s, sum by (le%s) (%s(%s)))", one(e.r, []string{"0.5", "0.9", "0.99", "0", "1", "-1", "2", "NaN"}), one(e.r, []string{"", ", job"}),
			one(e.r, []string{"rate", "increase"}), e.rangeOf("latency_bucket"))
	case 7:
		return fmt.Sprintf("histogram_quantile(%v, sum %s (rate(%s)))", e.r.Float64(), e.grouping(), e.rangeOf("native"))
	default:
		return e.binary(ranged(), e.selector())
	}
}

// Vector returns an expression of the type instant vector.
func (e *Expressions) Vector(depth int) string {
	if depth <= 0 {
		if e.r.IntN(12) == 0 {
			return "vector(" + e.Scalar(0) + ")"
		}
		return e.selector()
	}
	switch n := e.r.IntN(100); {
	case n < 25:
		return e.call(one(e.r, e.ranged), depth)
	case n < 50:
		return e.aggregate(depth)
	case n < 72:
		return e.binary(e.Vector(depth-1), e.Vector(depth-1))
	case n < 82:
		a, b := e.Vector(depth-1), e.Scalar(depth-1)
		if e.r.IntN(2) == 0 {
			a, b = b, a
		}
		op := one(e.r, []string{"+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<", ">", "<=", ">=", "== bool", "> bool", "<= bool"})
		if e.r.IntN(12) == 0 { // cut a histogram
			return fmt.Sprintf("%s %s %s", e.selectorOf(one(e.r, natives), true), one(e.r, []string{"</", ">/"}), one(e.r, []string{"0", "1", "2.5", "-1", "Inf"}))
		}
		return fmt.Sprintf("(%s) %s (%s)", a, op, b)
	case n < 97:
		return e.call(one(e.r, e.vector), depth)
	default:
		return "-(" + e.Vector(depth-1) + ")"
	}
}

// Scalar returns an expression of the type scalar.
func (e *Expressions) Scalar(depth int) string {
	if depth <= 0 || e.r.IntN(3) == 0 {
		return one(e.r, []string{"0", "1", "2", "-1", "0.5", "3.7", "1e3", "NaN", "Inf", "-Inf", "1e-9", strconv.FormatFloat(e.r.NormFloat64(), 'g', -1, 64)})
	}
	switch e.r.IntN(4) {
	case 0:
		return "scalar(" + e.Vector(depth-1) + ")"
	case 1:
		return e.call(one(e.r, e.scalar), depth)
	default:
		return fmt.Sprintf("(%s %s %s)", e.Scalar(depth-1), one(e.r, []string{"+", "-", "*", "/", "%", "^", "atan2", "== bool", "< bool", ">= bool", "!= bool"}), e.Scalar(depth-1))
	}
}

// call returns a call of a function, with arguments of the types that it wants.
func (e *Expressions) call(f *parser.Function, depth int) string {
	n := len(f.ArgTypes)
	switch {
	case f.Variadic > 0: // so many of them may be left out, or the last one be repeated
		if f.Name == "histogram_quantiles" {
			n = 3 + e.r.IntN(3)
		} else {
			n -= e.r.IntN(2)
		}
	case f.Variadic < 0:
		n += e.r.IntN(3) - 1
	}
	var args []string
	for i := range n {
		switch t := f.ArgTypes[min(i, len(f.ArgTypes)-1)]; t {
		case parser.ValueTypeMatrix:
			args = append(args, e.rangeVector(depth-1))
		case parser.ValueTypeScalar:
			args = append(args, e.number(f.Name, i, depth))
		case parser.ValueTypeString:
			args = append(args, strconv.Quote(e.text(f.Name, i)))
		default:
			args = append(args, e.argument(f.Name, i, depth))
		}
	}
	return f.Name + "(" + strings.Join(args, ", ") + ")"
}

// number returns an argument of a function that is a scalar.
func (e *Expressions) number(function string, i, depth int) string {
	if e.r.IntN(6) == 0 {
		return e.Scalar(depth - 1)
	}
	switch function {
	case "quantile_over_time", "histogram_quantile", "histogram_quantiles", "double_exponential_smoothing":
		return one(e.r, []string{"0.5", "0.9", "0.99", "0.1", "0", "1", "0.75"})
	case "predict_linear":
		return one(e.r, []string{"60", "3600", "-60", "0"})
	case "round":
		return one(e.r, []string{"1", "0.1", "5", "0.001", "10"})
	case "histogram_fraction":
		return one(e.r, []string{"0", "0.5", "1", "2.5", "-Inf", "Inf", "0.0005", "-1"})
	}
	return e.Scalar(0)
}

// text returns an argument of a function that is a string.
func (e *Expressions) text(function string, i int) string {
	label := func() string {
		return one(e.r, []string{"job", "instance", "code", "mode", "new", "le", "__name__", "päth"})
	}
	switch {
	case function == "label_replace" && i == 2:
		return one(e.r, []string{"$1", "x-$1", "", "$2", "fixed"})
	case function == "label_replace" && i == 4:
		return one(e.r, []string{"(.*)", "(.+):(.*)", "api", "a.*", "(.)(.*)", ""})
	case function == "label_join" && i == 2:
		return one(e.r, []string{"-", "", ","})
	}
	return label()
}

// argument returns an argument of a function that is a vector.
func (e *Expressions) argument(function string, i, depth int) string {
	switch function {
	case "info":
		if i == 1 {
			return one(e.r, []string{`{version=~".+"}`, `{os="linux"}`, `{__name__="target_info"}`, `{__name__=~".*_info", version!=""}`})
		}
	case "histogram_quantile", "histogram_fraction", "histogram_avg", "histogram_count", "histogram_sum", "histogram_stddev", "histogram_stdvar", "histogram_quantiles":
		name := one(e.r, append([]string{"latency_bucket"}, natives...))
		switch e.r.IntN(5) {
		case 0:
			return e.selectorOf(name, true)
		case 1:
			return "rate(" + e.rangeOf(name) + ")"
		case 2:
			return fmt.Sprintf("sum by (le, job) (rate(%s))", e.rangeOf(name))
		case 3:
			return fmt.Sprintf("sum_over_time(%s)", e.rangeOf(name))
		}
	}
	return e.Vector(depth - 1)
}

// aggregate returns an aggregation.
func (e *Expressions) aggregate(depth int) string {
	op := one(e.r, []string{"sum", "avg", "min", "max", "count", "group", "stddev", "stdvar", "topk", "bottomk", "quantile", "count_values", "limitk", "limit_ratio"})
	parameter := ""
	switch op {
	case "topk", "bottomk":
		parameter = one(e.r, []string{"1, ", "3, ", "10, ", "0, ", "-1, ", "2.9, "})
	case "limitk":
		parameter = one(e.r, []string{"1, ", "3, ", "0, "})
	case "limit_ratio":
		parameter = one(e.r, []string{"0.3, ", "-0.7, ", "1, ", "0, "})
	case "quantile":
		parameter = one(e.r, []string{"0.5, ", "0.9, ", "0, ", "1, ", "2, ", "-1, ", "NaN, "})
	case "count_values":
		parameter = one(e.r, []string{`"v", `, `"job", `})
	}
	if (op == "limitk" || op == "limit_ratio") && !e.options.EnableExperimentalFunctions {
		op, parameter = "sum", ""
	}
	if parameter != "" && op != "count_values" && e.r.IntN(10) == 0 {
		parameter = e.Scalar(depth-1) + ", "
	}
	g := ""
	if e.r.IntN(3) > 0 {
		g = " " + e.grouping()
	}
	return fmt.Sprintf("%s%s (%s%s)", op, g, parameter, e.Vector(depth-1))
}

func (e *Expressions) grouping() string {
	return one(e.r, []string{"by", "by", "without"}) + " (" + e.labels() + ")"
}

// labels returns names of labels, with commas.
func (e *Expressions) labels() string {
	var names []string
	for range e.r.IntN(3) {
		names = append(names, one(e.r, []string{"job", "instance", "code", "mode", "le", "room", "none", `"päth"`, "__name__"}))
	}
	return strings.Join(names, ", ")
}

// binary returns an operation on two vectors.
func (e *Expressions) binary(a, b string) string {
	op := one(e.r, []string{"+", "-", "*", "/", "%", "^", "atan2", "==", "!=", "<", ">", "<=", ">=", "== bool", "!= bool", "< bool", "and", "or", "unless", "and", "or", "unless"})
	set := op == "and" || op == "or" || op == "unless"
	if e.r.IntN(4) == 0 { // most vectors match nothing else
		b = a
	}
	match := ""
	if e.r.IntN(2) == 0 {
		match = " " + one(e.r, []string{"on", "ignoring"}) + " (" + e.labels() + ")"
		if !set && e.r.IntN(2) == 0 {
			match += " " + one(e.r, []string{"group_left", "group_right"}) + " (" + one(e.r, []string{"", e.labels()}) + ")"
		}
	}
	if !set && e.options.EnableBinopFillModifiers && e.r.IntN(10) == 0 {
		match += one(e.r, []string{" fill (0)", " fill_left (1)", " fill_right (-2)", " fill_left (0) fill_right (3)"})
	}
	return fmt.Sprintf("(%s) %s%s (%s)", a, op, match, b)
}

// rangeVector returns an expression of the type range vector.
func (e *Expressions) rangeVector(depth int) string {
	if depth > 0 && e.r.IntN(3) == 0 || e.r.IntN(15) == 0 {
		step := ""
		if e.r.IntN(3) > 0 {
			step = e.duration(4)
		}
		return fmt.Sprintf("(%s)[%s:%s]%s", e.Vector(depth-1), e.duration(40), step, e.modifiers())
	}
	return e.rangeOf(e.metric())
}

// rangeOf returns a range selector of a metric.
func (e *Expressions) rangeOf(name string) string {
	s := fmt.Sprintf("%s[%s]", e.selectorOf(name, false), e.duration(60))
	if e.options.EnableExtendedRangeSelectors && e.r.IntN(20) == 0 {
		s += one(e.r, []string{" anchored", " smoothed"})
	}
	return s + e.modifiers()
}

// duration returns one of up to so many intervals of the dataset.
func (e *Expressions) duration(intervals int) string {
	ms := e.data.Interval * int64(1+e.r.IntN(intervals))
	switch e.r.IntN(6) {
	case 0:
		ms = 1 + e.r.Int64N(ms)
	case 1:
		ms += e.r.Int64N(1000)
	case 2:
		if e.options.ExperimentalDurationExpr && e.r.IntN(4) == 0 {
			return one(e.r, []string{"step() + 1m", "2 * 37s", "range() / 4 + 1s", "max_of(step(), 1m)", "(5m - 30s)"})
		}
	}
	return fmt.Sprintf("%dms", ms)
}

// modifiers returns an offset, a fixed time, both, or neither.
func (e *Expressions) modifiers() string {
	offset, at := "", ""
	if e.r.IntN(6) == 0 {
		offset = " offset " + one(e.r, []string{"", "", "-"}) + fmt.Sprintf("%dms", 1+e.r.Int64N(20*e.data.Interval))
	}
	if e.r.IntN(10) == 0 {
		ms := e.data.Start + e.r.Int64N(e.data.End-e.data.Start)
		at = " @ " + one(e.r, []string{"start()", "end()", strconv.FormatFloat(float64(ms)/1000, 'f', -1, 64)})
	}
	if e.r.IntN(2) == 0 {
		return offset + at
	}
	return at + offset
}

// natives are the metrics with native histograms.
var natives = []string{"native", "native_float", "native_custom", "native_mixed", "native_gauge"}

func (e *Expressions) metric() string {
	return e.data.Metrics[e.r.IntN(len(e.data.Metrics))].Name
}

// selector returns an instant selector.
func (e *Expressions) selector() string { return e.selectorOf(e.metric(), true) }

func (e *Expressions) selectorOf(name string, modified bool) string {
	var matchers []string
	metric := e.data.Metrics[0]
	for _, m := range e.data.Metrics {
		if m.Name == name {
			metric = m
		}
	}
	text := name
	if !isLegacyName(name) {
		text = ""
		matchers = append(matchers, strconv.Quote(name))
	} else if e.r.IntN(12) == 0 {
		text = ""
		matchers = append(matchers, "__name__"+one(e.r, []string{"=" + strconv.Quote(name), "=~" + strconv.Quote(name[:len(name)/2]+".*"), "=~" + strconv.Quote(name+"|up"), "=~" + strconv.Quote("(?i:"+strings.ToUpper(name)+")")}))
	}
	keys := slices.Sorted(maps.Keys(metric.Labels))
	for range e.r.IntN(3) {
		if len(keys) == 0 || e.r.IntN(8) == 0 {
			matchers = append(matchers, one(e.r, []string{`none=""`, `none!="x"`, `none=~".*"`, `none="x"`, `none!~"x|y"`, `job=""`, `job!=""`, `job=~".+"`, `instance=~"a.*|b.*"`, `instance!~"c:3|d:4"`, `job=~"api|"`}))
			continue
		}
		key := one(e.r, keys)
		v := one(e.r, metric.Labels[key])
		if !isLegacyName(key) {
			key = strconv.Quote(key)
		}
		op := one(e.r, []string{"=", "=", "!=", "=~", "!~"})
		if strings.HasSuffix(op, "~") {
			v = one(e.r, []string{quoteMeta(v), quoteMeta(v) + "|other", ".*", "[" + quoteMeta(v[:1]) + "].*", "(?s:.+)"})
		}
		matchers = append(matchers, key+op+strconv.Quote(v))
	}
	if len(matchers) > 0 {
		text += "{" + strings.Join(matchers, ", ") + "}"
	}
	if modified {
		text += e.modifiers()
	}
	return text
}

// quoteMeta escapes what has a meaning in a regular expression.
func quoteMeta(s string) string {
	var b strings.Builder
	for _, c := range s {
		if strings.ContainsRune(`\.+*?()|[]{}^$`, c) {
			b.WriteByte('\\')
		}
		b.WriteRune(c)
	}
	return b.String()
}

func isLegacyName(s string) bool {
	for i, c := range s {
		if !(c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || i > 0 && c >= '0' && c <= '9') {
			return false
		}
	}
	return s != ""
}

func one[T any](r *rand.Rand, of []T) T { return of[r.IntN(len(of))] }
