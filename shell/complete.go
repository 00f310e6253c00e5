package shell

import (
	"bytes"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/query/engine/function"
	"tsdbd/query/syntax"
)

const (
	// maxNames bounds the names that completion asks for.
	maxNames = 500
	// lookTime bounds how long completion waits for the server.
	lookTime = 2 * time.Second
	// namesAge is how long names are used again.
	namesAge = time.Minute
)

// names runs a statement and returns the texts of one of its columns.
func (s *Session) names(ctx context.Context, db, statement, column string) ([]string, error) {
	c := &collector{column: column}
	asked := *s
	asked.Settings = Settings{Database: db, Language: "influxql", Precision: "rfc3339", Format: "table", ChunkSize: 10_000}
	var said bytes.Buffer
	asked.Out = &said
	if err := asked.ask(ctx, statement, c); err != nil {
		if said.Len() > 0 {
			return nil, fmt.Errorf("%s", strings.TrimSpace(strings.TrimPrefix(said.String(), "ERR: ")))
		}
		return nil, err
	}
	return c.found, nil
}

// collector is a formatter that keeps the texts of a column.
type collector struct {
	column string
	found  []string
}

func (c *collector) end() error { return nil }

func (c *collector) series(s *series) error {
	i := slices.Index(s.Columns, c.column)
	for _, row := range s.Values {
		if i >= 0 {
			c.found = append(c.found, fmt.Sprint(row[i]))
		}
	}
	return nil
}

// completer finds what may stand at the end of a line.
type completer struct {
	session *Session
	mu      sync.Mutex
	known   map[string]known
}

type known struct {
	at    time.Time
	names []string
}

// look returns the names of a look-up, which may be a minute old. It finds nothing if
// the server does not answer.
func (c *completer) look(statement, column string) []string {
	return c.keep(statement, func(ctx context.Context) ([]string, error) {
		return c.session.names(ctx, c.session.Database, statement, column)
	})
}

// keep returns the names that f finds for a key.
func (c *completer) keep(key string, f func(context.Context) ([]string, error)) []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	key = strings.Join([]string{c.session.Client.URL, c.session.Database, c.session.RetentionPolicy, key}, " ")
	if k, ok := c.known[key]; ok && time.Since(k.at) < namesAge {
		return k.names
	}
	ctx, cancel := context.WithTimeout(context.Background(), lookTime)
	defer cancel()
	names, err := f(ctx)
	if err != nil {
		return nil
	}
	if c.known == nil {
		c.known = map[string]known{}
	}
	c.known[key] = known{time.Now(), names}
	return names
}

var (
	// lastWord is behind whole strings and names in quotes; it may be one without its end.
	lastWord  = regexp.MustCompile(`(?s)^(?:"(?:[^"\\]|\\.)*"|'(?:[^'\\]|\\.)*'|[^"'])*?("(?:[^"\\]|\\.)*\\?|'(?:[^'\\]|\\.)*\\?|\\?[\p{L}\p{N}_$-]*)$`)
	source    = regexp.MustCompile(`(?is)\b(?:FROM|UPDATE)\s+((?:"(?:[^"\\]|\\.)*"|\w+)(?:\.(?:"(?:[^"\\]|\\.)*"|\w*))*)`)
	valueOf   = regexp.MustCompile(`(?s)(?:"((?:[^"\\]|\\.)*)"|(\w+))\s*(?:!=|=)\s*$`)
	beforeTag = regexp.MustCompile(`(?is)\b(?:WHERE|AND|OR|BY)\s*(?:[^;]*,\s*)?\(?$`)
)

// complete returns what may stand in place of the last word of a line, and the word.
func (c *completer) complete(line string) (word string, candidates []string) {
	if c.session.promQL() && !isCommand(line) {
		return c.completePromQL(line)
	}
	word = lastWord.FindStringSubmatch(line)[1]
	before := strings.TrimSpace(strings.TrimSuffix(line, word))
	tokens := strings.Fields(before)
	last := ""
	if len(tokens) > 0 {
		last = strings.ToUpper(tokens[len(tokens)-1])
	}
	from := ""
	if m := source.FindStringSubmatch(line); m != nil {
		from = " FROM " + m[1]
	}
	limited := fmt.Sprintf(" LIMIT %d", maxNames)
	switch {
	case before == "":
		candidates = append(commandNames(), syntax.Beginnings()...)
	case last == "USE" || last == "ON" || last == `\U`:
		candidates = quoted(word, c.look("SHOW DATABASES", "name"))
	case last == "FROM" || last == "INTO" || last == "MEASUREMENT" || last == "UPDATE" || last == `\D`:
		candidates = quoted(word, c.look("SHOW MEASUREMENTS"+limited, "name"))
	case last == "FORMAT" || last == `\F`:
		candidates = formats
	case last == "LANG":
		candidates = languages
	case last == "PRECISION" || last == `\T`:
		candidates = precisions
	case valueOf.MatchString(before):
		m := valueOf.FindStringSubmatch(before)
		for _, v := range c.look("SHOW TAG VALUES"+from+" WITH KEY = "+influxql.QuoteIdent(m[1]+m[2])+limited, "value") {
			candidates = append(candidates, influxql.QuoteString(v))
		}
	case beforeTag.MatchString(before):
		candidates = append(quoted(word, c.look("SHOW TAG KEYS"+from+limited, "tagKey")), quoted(word, c.look("SHOW FIELD KEYS"+from+limited, "fieldKey"))...)
		if !strings.HasPrefix(word, `"`) {
			candidates = append(candidates, "time")
		}
	case last == "SELECT" || strings.HasSuffix(before, "(") || strings.HasSuffix(before, ","):
		candidates = quoted(word, c.look("SHOW FIELD KEYS"+from+limited, "fieldKey"))
		if !strings.HasPrefix(word, `"`) {
			candidates = append(candidates, functions()...)
		}
	default:
		candidates = syntax.Keywords()
	}
	return word, starting(word, candidates)
}

// starting returns the candidates that begin with a word, whatever its case. An
// opening quote of the word need not be theirs.
func starting(word string, candidates []string) []string {
	bare := strings.ToLower(strings.TrimLeft(word, `"'`))
	var found []string
	for _, c := range candidates {
		if strings.HasPrefix(strings.ToLower(strings.TrimLeft(c, `"'`)), bare) {
			found = append(found, c)
		}
	}
	slices.Sort(found)
	return slices.Compact(found)
}

// quoted returns names as a statement has them: with quotes where they are needed, or
// where the word has one.
func quoted(word string, names []string) []string {
	all := make([]string, len(names))
	for i, name := range names {
		all[i] = influxql.QuoteIdent(name)
		if strings.HasPrefix(word, `"`) && !strings.HasPrefix(all[i], `"`) {
			all[i] = `"` + name + `"`
		}
	}
	return all
}

func commandNames() (names []string) {
	for _, c := range commands() {
		names = append(names, c.names...)
	}
	return names
}

// functions are the names of functions, each with its parenthesis.
func functions() (calls []string) {
	for _, name := range function.Names() {
		calls = append(calls, name+"(")
	}
	return calls
}
