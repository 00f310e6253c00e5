package grafana

import (
	"fmt"
	"regexp"
	"strings"
)

var isRegex = regexp.MustCompile(`^/.*/\w*$`)

// statement returns the statement that Grafana's form for InfluxQL sends.
func (o object) statement() string {
	var b strings.Builder
	b.WriteString("SELECT ")
	columns, _ := o["select"].([]any)
	for i, column := range columns {
		if i > 0 {
			b.WriteString(", ")
		}
		expression := ""
		for _, part := range (object{"parts": column}).list("parts") {
			expression = part.wrap(expression)
		}
		b.WriteString(expression)
	}
	b.WriteString(" FROM ")
	if policy := o.text("policy"); policy != "" && policy != "default" {
		fmt.Fprintf(&b, "%s.", name(policy))
	}
	b.WriteString(name(o.text("measurement")))
	b.WriteString(" WHERE ")
	if tags := o.list("tags"); len(tags) > 0 {
		b.WriteString("(")
		for i, tag := range tags {
			if i > 0 {
				condition := tag.text("condition")
				if condition == "" {
					condition = "AND"
				}
				fmt.Fprintf(&b, " %s ", condition)
			}
			b.WriteString(tag.condition())
		}
		b.WriteString(") AND ")
	}
	b.WriteString("$timeFilter")
	by, fill := "", ""
	for _, part := range o.list("groupBy") {
		switch {
		case part.text("type") == "fill":
			fill = " " + part.wrap("")
		case by == "":
			by = " GROUP BY " + part.wrap("")
		default:
			by += ", " + part.wrap("")
		}
	}
	b.WriteString(by + fill)
	if strings.EqualFold(o.text("orderByTime"), "DESC") {
		b.WriteString(" ORDER BY time DESC")
	}
	for _, bound := range []string{"limit", "slimit"} {
		if n := o.text(bound); n != "" {
			fmt.Fprintf(&b, " %s %s", strings.ToUpper(bound), n)
		}
	}
	if zone := o.text("tz"); zone != "" {
		fmt.Fprintf(&b, " tz('%s')", zone)
	}
	return b.String()
}

// wrap puts a part of an expression, such as a function, around what is inside.
func (o object) wrap(inside string) string {
	params := o.texts("params")
	first := ""
	if len(params) > 0 {
		first = params[0]
	}
	switch kind := o.text("type"); kind {
	case "field", "tag":
		if first == "*" {
			return first
		}
		return name(first)
	case "math":
		return inside + " " + strings.TrimSpace(first)
	case "alias":
		return fmt.Sprintf("%s AS %s", inside, name(first))
	case "time":
		if first == "auto" || first == "$interval" || first == "" {
			params = append([]string{"$__interval"}, params[min(1, len(params)):]...)
		}
		return fmt.Sprintf("time(%s)", strings.Join(params, ", "))
	default:
		if inside != "" {
			params = append([]string{inside}, params...)
		}
		return fmt.Sprintf("%s(%s)", kind, strings.Join(params, ", "))
	}
}

// condition returns the condition on a tag.
func (o object) condition() string {
	value, operator := o.text("value"), o.text("operator")
	if operator == "" {
		operator = "="
		if isRegex.MatchString(value) {
			operator = "=~"
		}
	}
	switch operator {
	case "=~", "!~", ">", "<", ">=", "<=":
	case "Is", "Is Not": // of a boolean field
		operator = map[string]string{"Is": "=", "Is Not": "!="}[operator]
	default:
		value = "'" + strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(value) + "'"
	}
	return fmt.Sprintf("%s %s %s", name(o.text("key")), operator, value)
}

// name quotes a name; regular expressions stay, and so does the type behind a name.
func name(s string) string {
	if isRegex.MatchString(s) {
		return s
	}
	kind := ""
	if i := strings.LastIndex(s, "::"); i > 0 && (s[i:] == "::tag" || s[i:] == "::field") {
		s, kind = s[:i], s[i:]
	}
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"` + kind
}
