package shell

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/influxdata/influxql"
)

// command is a command of the shell.
type command struct {
	names []string // the first is in the help; those of the influx shell, and one with a backslash
	usage string   // of its arguments
	about string
	run   func(s *Session, ctx context.Context, args string) error
}

// commands returns the commands in the order of the help.
func commands() []command {
	return []command{
		{[]string{"use", `\u`}, "DATABASE[.POLICY]", "choose the database, and the policy, of the statements that follow", (*Session).use},
		{[]string{"clear"}, "db|rp", "forget the database, or the policy", (*Session).clear},
		{[]string{"lang"}, strings.Join(languages, "|"), "choose the language of queries", func(s *Session, _ context.Context, args string) error {
			return s.change(func(n *Settings) { n.Language = args })
		}},
		{[]string{"range", `\r`}, "[START [END [STEP]]]", "ask PromQL for a range, such as 6h, or for now", (*Session).setRange},
		{[]string{"insert"}, "[INTO POLICY] LINE", "write a line of line protocol", (*Session).insert},
		{[]string{"format", `\f`}, strings.Join(formats, "|"), "choose how answers are written", func(s *Session, _ context.Context, args string) error {
			return s.change(func(n *Settings) { n.Format = args })
		}},
		{[]string{"precision", `\t`}, strings.Join(precisions, "|"), "choose the unit of times", func(s *Session, _ context.Context, args string) error {
			return s.change(func(n *Settings) { n.Precision = args })
		}},
		{[]string{"pretty"}, "", "indent json, or no longer", func(s *Session, _ context.Context, _ string) error {
			s.Pretty = !s.Pretty
			return s.say("pretty is %s", onOff(s.Pretty))
		}},
		{[]string{"plot", `\p`}, "", "draw numbers over time in place of tables, or no longer", func(s *Session, _ context.Context, _ string) error {
			s.Plot = !s.Plot
			return s.say("plot is %s", onOff(s.Plot))
		}},
		{[]string{"chunk"}, "size ROWS", "choose how many rows come at a time", (*Session).chunk},
		{[]string{"auth"}, "USER [PASSWORD]", "log in; the prompt asks for the password and does not show it", (*Session).auth},
		{[]string{"connect"}, "HOST:PORT", "ask another server", (*Session).connect},
		{[]string{"settings"}, "", "show the settings", (*Session).showSettings},
		{[]string{"history"}, "", "show the lines of the past", (*Session).showHistory},
		{[]string{`\l`}, "", "list the databases", func(s *Session, ctx context.Context, _ string) error { return s.query(ctx, "SHOW DATABASES") }},
		{[]string{`\d`}, "[MEASUREMENT]", "list the measurements, or the fields and tags of one", (*Session).describe},
		{[]string{"help", `\h`, `\?`}, "", "show this", (*Session).help},
		{[]string{"exit", "quit", `\q`}, "", "end", func(*Session, context.Context, string) error { return ErrExit }},
	}
}

// command runs a command of the shell. It returns false if the line is none.
func (s *Session) command(ctx context.Context, line string) (known bool, err error) {
	line = strings.TrimRight(line, "; \t\n")
	name := firstWord(line)
	c := commandOf(name)
	switch {
	case c != nil:
		return true, c.run(s, ctx, strings.TrimSpace(strings.TrimPrefix(line, name)))
	case isCommand(line):
		return true, fmt.Errorf(`there is no command %s, see \h`, name)
	}
	return false, nil
}

// commandOf returns the command of a name, or nil.
func commandOf(name string) *command {
	for _, c := range commands() {
		if slices.Contains(c.names, strings.ToLower(name)) {
			return &c
		}
	}
	return nil
}

// isCommand reports whether a text is a command of the shell, or would be one.
func isCommand(text string) bool {
	name := firstWord(text)
	return strings.HasPrefix(name, `\`) || commandOf(name) != nil
}

func (s *Session) say(format string, args ...any) error {
	_, err := fmt.Fprintf(s.Out, format+"\n", args...)
	return err
}

func onOff(b bool) string {
	if b {
		return "on"
	}
	return "off"
}

// change brings settings into force if they have a meaning.
func (s *Session) change(f func(*Settings)) error {
	next := s.Settings
	f(&next)
	if err := next.Check(); err != nil {
		return err
	}
	s.Settings = next
	return nil
}

// use chooses a database that exists.
func (s *Session) use(ctx context.Context, args string) error {
	db, rp, err := parseSource(args)
	if err != nil {
		return err
	}
	names, err := s.names(ctx, "", "SHOW DATABASES", "name")
	if err != nil {
		return err
	}
	if !slices.Contains(names, db) {
		return fmt.Errorf("there is no database %s", db)
	}
	if rp != "" {
		policies, err := s.names(ctx, db, "SHOW RETENTION POLICIES", "name")
		if err != nil {
			return err
		}
		if !slices.Contains(policies, rp) {
			return fmt.Errorf("database %s has no retention policy %s", db, rp)
		}
	}
	s.Database, s.RetentionPolicy = db, rp
	if rp != "" {
		return s.say("using database %s, retention policy %s", db, rp)
	}
	return s.say("using database %s", db)
}

// parseSource reads DATABASE[.POLICY], each bare or quoted.
func parseSource(text string) (db, rp string, err error) {
	scan := influxql.NewScanner(strings.NewReader(text))
	name := func() (string, error) {
		tok, _, lit := scan.Scan()
		if tok != influxql.IDENT || lit == "" {
			return "", fmt.Errorf("%q is not DATABASE or DATABASE.POLICY", text)
		}
		return lit, nil
	}
	if db, err = name(); err != nil {
		return "", "", err
	}
	tok, _, _ := scan.Scan()
	if tok == influxql.DOT {
		if rp, err = name(); err != nil {
			return "", "", err
		}
		tok, _, _ = scan.Scan()
	}
	if tok != influxql.EOF {
		return "", "", fmt.Errorf("%q is not DATABASE or DATABASE.POLICY", text)
	}
	return db, rp, nil
}

func (s *Session) clear(_ context.Context, args string) error {
	switch strings.ToLower(args) {
	case "db", "database":
		s.Database, s.RetentionPolicy = "", ""
		return s.say("no database")
	case "rp", "retention policy":
		s.RetentionPolicy = ""
		return s.say("the default retention policy")
	}
	return errors.New("usage: clear db|rp")
}

// insert writes a line.
func (s *Session) insert(ctx context.Context, args string) error {
	rp := s.RetentionPolicy
	if rest, ok := strings.CutPrefix(strings.ToLower(args), "into "); ok {
		name, line, ok := strings.Cut(strings.TrimSpace(args[len(args)-len(rest):]), " ")
		if !ok {
			return errors.New("usage: insert [INTO POLICY] LINE")
		}
		if db, policy, err := parseSource(name); err != nil {
			return err
		} else if policy != "" {
			return fmt.Errorf("%s names a database; use %s first", name, db)
		} else {
			rp = db
		}
		args = line
	}
	if s.ReadOnly {
		return errors.New("-read-only: the shell writes nothing")
	}
	if s.Database == "" {
		return errors.New("no database, see use")
	}
	if args == "" {
		return errors.New("usage: insert [INTO POLICY] LINE")
	}
	return plain(s.Client.Write(ctx, s.Database, rp, "ns", []byte(args)))
}

func (s *Session) chunk(_ context.Context, args string) error {
	n, err := strconv.Atoi(strings.TrimSpace(strings.TrimPrefix(strings.ToLower(args), "size")))
	if err != nil {
		return errors.New("usage: chunk size ROWS")
	}
	return s.change(func(next *Settings) { next.ChunkSize = n })
}

func (s *Session) auth(ctx context.Context, args string) error {
	user, password, _ := strings.Cut(args, " ")
	if user == "" || password == "" && s.secret == nil {
		return errors.New("usage: auth USER PASSWORD")
	}
	if password == "" {
		var err error
		if password, err = s.secret("password: "); err != nil {
			return err
		}
	}
	before, next := s.Client, s.Client.Copy()
	next.Username, next.Password = user, strings.TrimSpace(password)
	s.Client = next
	if _, err := s.names(ctx, "", "SHOW DATABASES", "name"); err != nil {
		s.Client = before
		return err
	}
	return s.say("logged in as %s", user)
}

func (s *Session) connect(ctx context.Context, args string) error {
	if args == "" {
		return errors.New("usage: connect HOST:PORT")
	}
	if !strings.Contains(args, "://") {
		args = "http://" + args
	}
	next := s.Client.Copy()
	next.URL = args
	if err := next.Ping(ctx); err != nil {
		return plain(err)
	}
	s.Client = next
	return s.say("connected to %s", args)
}

func (s *Session) showSettings(context.Context, string) error {
	for _, p := range [][2]string{
		{"host", s.Client.URL},
		{"username", s.Client.Username},
		{"database", s.Database},
		{"retention policy", s.RetentionPolicy},
		{"language", s.Language},
		{"range", s.Range.String()},
		{"precision", s.Precision},
		{"format", s.Format},
		{"pretty", onOff(s.Pretty)},
		{"plot", onOff(s.Plot)},
		{"chunk size", strconv.Itoa(s.ChunkSize)},
	} {
		if err := s.say("%-18s%s", p[0], p[1]); err != nil {
			return err
		}
	}
	return nil
}

func (s *Session) showHistory(context.Context, string) error {
	if s.history == nil {
		return nil
	}
	for _, line := range s.history() {
		if err := s.say("%s", line); err != nil {
			return err
		}
	}
	return nil
}

// describe lists measurements, or the fields and tags of one.
func (s *Session) describe(ctx context.Context, args string) error {
	if args == "" {
		return s.query(ctx, "SHOW MEASUREMENTS")
	}
	name, rest, err := parseSource(args)
	if err != nil || rest != "" {
		return fmt.Errorf("%q is not a measurement", args)
	}
	from := influxql.QuoteIdent(name)
	return s.query(ctx, "SHOW FIELD KEYS FROM "+from+"; SHOW TAG KEYS FROM "+from)
}

func (s *Session) help(context.Context, string) error {
	for _, c := range commands() {
		if err := s.say("  %-28s %s", strings.TrimSpace(strings.Join(c.names, ", ")+" "+c.usage), c.about); err != nil {
			return err
		}
	}
	return s.say("Everything else goes to the server. A statement ends at ; and continues on the next line if it is not whole.\nTab completes names. Ctrl-C ends the statement that runs, Ctrl-D the shell.")
}
