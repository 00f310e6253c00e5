package grafana

import (
	"fmt"
	"regexp"
	"slices"
	"strings"

	"tsdbd/board"
)

var (
	brackets = regexp.MustCompile(`\[\[(\w+)(?::\w+)?\]\]`)
	formats  = regexp.MustCompile(`\$\{(\w+):(\w+)\}`)
	// ownInterval is the page's other name of $__interval.
	ownInterval = regexp.MustCompile(`\$interval\b`)

	used = regexp.MustCompile(`\$(?:(\w+)|\{(\w+)\})`)
)

// imported returns the text of a query as the page fills it in. span is the range of the dashboard, for
// $__range. say takes what is not as before.
func imported(text, span string, say func(format string, args ...any)) string {
	text = brackets.ReplaceAllString(text, "$${$1}")
	text = formats.ReplaceAllStringFunc(text, func(s string) string {
		m := formats.FindStringSubmatch(s)
		if m[2] != "regex" && m[2] != "pipe" {
			say("the format %q of $%s", m[2], m[1])
		}
		return "${" + m[1] + "}"
	})
	return used.ReplaceAllStringFunc(text, func(s string) string {
		switch name := nameOf(s); {
		case name == "__interval":
			return "$__interval"
		case name == "__rate_interval":
			say("$__rate_interval, which is 5m now")
			return "5m"
		case name == "__range":
			say("$__range, which is %s now", span)
			return span
		case strings.HasPrefix(name, "__"):
			say("$%s, which the page does not know", name)
		}
		return s
	})
}

func nameOf(s string) string { return strings.Trim(s, "${}") }

// Tokens of the languages, as the page sees them, and what may stand before a regular expression of InfluxQL.
var (
	influxToken = regexp.MustCompile(`^(?:--[^\n]*|/\*(?s:.*?)(?:\*/|$)|'(?:[^'\\]|\\(?s:.))*'?|"(?:[^"\\]|\\(?s:.))*"?|\$\w+|\$\{\w+\}|[A-Za-z_][\w.]*|=~|!~|!=|<>|<=|>=|\s+)`)
	promToken   = regexp.MustCompile("^(?:#[^\n]*|\"(?:[^\"\\\\]|\\\\(?s:.))*\"?|'(?:[^'\\\\]|\\\\(?s:.))*'?|`[^`]*`?|\\$\\w+|\\$\\{\\w+\\}|=~|!~|!=|\\s+)")
	regexToken  = regexp.MustCompile(`^/(?:[^/\\\n]|\\(?s:.))+/?`)
	beforeRegex = regexp.MustCompile(`(?i)^(?:=~|!~|,|\(|from|by|select|key|measurement|)$`)
	beforeValue = regexp.MustCompile(`(?i)^(?:limit|offset|slimit|soffset|[-+*/<>]|<=|>=)$`)
)

// exported returns the text of a query as Grafana fills it in. The page puts a variable that stands by itself
// where the language expects a name or a text; Grafana wants the quotes in the query.
func exported(q board.Query, variables []string) string {
	var out strings.Builder
	token, before, called := promToken, "", ""
	if q.Lang == "influxql" {
		token = influxToken
	}
	for text := q.Text; text != ""; {
		found := ""
		if q.Lang == "influxql" && beforeRegex.MatchString(before) && !strings.HasPrefix(text, "/*") {
			found = regexToken.FindString(text)
		}
		if found == "" {
			found = token.FindString(text)
		}
		if found == "" {
			found = text[:1]
		}
		text = text[len(found):]
		switch name := nameOf(found); {
		case found == "$interval" || found == "$__interval":
			out.WriteString("$__interval")
		case found[0] == '$' && slices.Contains(variables, name):
			out.WriteString(quoted(q.Lang, name, before, called))
		default:
			out.WriteString(ownInterval.ReplaceAllString(found, "$$__interval"))
		}
		if strings.TrimSpace(found) != "" && !strings.HasPrefix(found, "--") && !strings.HasPrefix(found, "/*") && found[0] != '#' {
			called, before = before, found
		}
	}
	return out.String()
}

// quoted is a variable that stands by itself, behind the tokens before and called.
func quoted(lang, name, before, called string) string {
	matches := before == "=~" || before == "!~"
	equals := slices.Contains([]string{"=", "!=", "<>"}, before)
	switch {
	case lang == "promql" && (matches || equals):
		return fmt.Sprintf(`"${%s}"`, name)
	case lang == "promql" || beforeValue.MatchString(before) || (before == "(" && strings.EqualFold(called, "time")):
		return fmt.Sprintf("${%s}", name)
	case equals:
		return fmt.Sprintf("'${%s}'", name)
	case matches:
		return fmt.Sprintf("/^${%s}$/", name)
	}
	return fmt.Sprintf(`"${%s}"`, name)
}
