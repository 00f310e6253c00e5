package syntax

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/influxdata/influxql"

	"tsdbd/meta"
	"tsdbd/query/window"
)

// CreateDownsample is CREATE DOWNSAMPLE: a policy that keeps aggregates of another one.
type CreateDownsample struct {
	extended
	Policies
	Measurement     string // "": all; with Regex a regular expression
	Regex           bool
	Use             meta.DownsampleUse // "": none
	meta.Definition                    // without Where of a statement that was parsed
	Condition       influxql.Expr      // nil: all rows, or as the definition says
}

// Policies say which downsample of a database is meant: by its name, or else by its source and
// its target.
type Policies struct{ Database, Name, From, Into string }

// maxConditionParts bounds a condition, which the catalog keeps.
const maxConditionParts = 1000

// parseCreateDownsample reads [name] ON database FROM policy[.measurement | ./regex/] [WITH field
// function, ...] INTO policy EVERY period [GROUP BY tag, ... | WITHOUT (tag, ...)] AS function
// [, function ...] [WHERE condition] [USE use]. After WITH there may be no AS.
func parseCreateDownsample(p *influxql.Parser) (influxql.Statement, error) {
	st := &CreateDownsample{}
	err := st.parse(p, func() error {
		if !next(p, influxql.DOT) {
			return st.parseWith(p)
		}
		tok, pos, lit := p.ScanIgnoreWhitespace()
		if st.Regex = tok == influxql.STRING; !st.Regex && tok != influxql.IDENT { // clauses makes it of a regular expression
			return unexpected(tok, pos, lit, "measurement", "regular expression")
		}
		st.Measurement = lit
		return st.parseWith(p)
	})
	if err == nil {
		err = expect(p, influxql.EVERY)
	}
	if err == nil {
		st.Period, err = parsePeriod(p)
	}
	if err == nil {
		err = st.parseTags(p)
	}
	switch {
	case err != nil:
	case next(p, influxql.AS):
		var rest []string
		rest, err = parseFunctions(p)
		st.Functions = append(rest, st.Functions...)
	case len(st.Functions) == 0:
		err = expect(p, influxql.AS)
	}
	if err != nil {
		return nil, err
	}
	if next(p, influxql.WHERE) {
		if st.Condition, err = p.ParseExpr(); err != nil {
			return nil, err
		}
		parts := 0
		influxql.WalkFunc(st.Condition, func(influxql.Node) { parts++ })
		if parts > maxConditionParts {
			return nil, fmt.Errorf("the condition of a downsample has more than %d parts", maxConditionParts)
		}
		if influxql.HasTimeExpr(st.Condition) {
			return nil, errors.New("the condition of a downsample has no time")
		}
	}
	if nextWord(p, "USE") {
		if st.Use, err = parseUse(p, meta.DownsampleUses...); err != nil {
			return nil, err
		}
	}
	return st, nil
}

// parseUse reads one of some uses of a downsample.
func parseUse(p *influxql.Parser, list ...meta.DownsampleUse) (meta.DownsampleUse, error) {
	tok, pos, lit := p.ScanIgnoreWhitespace()
	use := meta.DownsampleUse(strings.ToLower(cmp.Or(lit, tok.String())))
	if !slices.Contains(list, use) {
		words := make([]string, len(list))
		for i := range list {
			words[i] = strings.ToUpper(string(list[i]))
		}
		return "", unexpected(tok, pos, lit, words...)
	}
	return use, nil
}

// parsePeriod reads a duration, or months, quarters or years such as 1mo, and tz('zone').
func parsePeriod(p *influxql.Parser) (out meta.Period, err error) {
	tok, pos, lit := p.ScanIgnoreWhitespace()
	if out.Months = window.CalendarMonths(strings.ToLower(lit)); out.Months > 0 {
		out.Every = time.Duration(out.Months) * window.MonthLength
	} else if tok != influxql.DURATIONVAL {
		return out, unexpected(tok, pos, lit, "duration")
	} else if out.Every, err = influxql.ParseDuration(lit); err != nil {
		return out, &influxql.ParseError{Message: err.Error(), Pos: pos}
	}
	if !nextWord(p, "TZ") {
		return out, nil
	}
	if err = expect(p, influxql.LPAREN); err != nil {
		return out, err
	}
	if tok, pos, lit = p.ScanIgnoreWhitespace(); tok != influxql.STRING {
		return out, unexpected(tok, pos, lit, "string")
	}
	loc, err := window.Location(lit)
	if err != nil {
		return out, fmt.Errorf("unable to find time zone %s", lit) // as a SELECT says it
	}
	if loc != time.UTC {
		out.Zone = loc.String()
	}
	return out, expect(p, influxql.RPAREN)
}

// parseWith reads WITH field function, ..., or nothing.
func (st *CreateDownsample) parseWith(p *influxql.Parser) error {
	if !next(p, influxql.WITH) {
		return nil
	}
	for {
		field, err := p.ParseIdent()
		var name string
		if err == nil {
			name, err = parseFunction(p)
		}
		if err != nil {
			return err
		}
		st.Functions = addFunction(st.Functions, meta.FunctionOf(name, field))
		if !next(p, influxql.COMMA) {
			return nil
		}
	}
}

// parseTags reads GROUP BY tag, ... or WITHOUT (tag, ...). GROUP BY () keeps no tag.
func (st *CreateDownsample) parseTags(p *influxql.Parser) (err error) {
	switch {
	case next(p, influxql.GROUP):
		if err = expect(p, influxql.BY); err != nil {
			return err
		}
		if st.Grouped = true; next(p, influxql.LPAREN) {
			return expect(p, influxql.RPAREN)
		}
		st.By, err = p.ParseIdentList()
	case nextWord(p, "WITHOUT"):
		if err = expect(p, influxql.LPAREN); err != nil {
			return err
		}
		if st.Without, err = p.ParseIdentList(); err == nil {
			err = expect(p, influxql.RPAREN)
		}
	}
	return err
}

// parseFunctions reads the names of functions that a downsample may have.
func parseFunctions(p *influxql.Parser) (out []string, err error) {
	for {
		name, err := parseFunction(p)
		if err != nil {
			return nil, err
		}
		if out = addFunction(out, name); !next(p, influxql.COMMA) {
			return out, nil
		}
	}
}

// parseFunction reads the name of a function that a downsample may have.
func parseFunction(p *influxql.Parser) (name string, err error) {
	if next(p, influxql.DISTINCT) { // a word of the grammar
		return "distinct", nil
	}
	if name, err = p.ParseIdent(); err != nil {
		return "", err
	}
	name = strings.ToLower(name)
	if all := meta.DownsampleFunctions(); !slices.Contains(all, name) {
		return "", fmt.Errorf("a downsample has no function %s, only %s", name, strings.Join(all, ", "))
	}
	if name == sketched && next(p, influxql.LPAREN) {
		return name, parsePercent(p)
	}
	return name, nil
}

// sketched is the function that may name a number: its sketch answers all of them, so
// that the number is for the reader of a statement and not kept.
const sketched = "percentile"

// parsePercent reads the number of a percentile and the parenthesis behind it.
func parsePercent(p *influxql.Parser) error {
	tok, pos, lit := p.ScanIgnoreWhitespace()
	n, err := strconv.ParseFloat(lit, 64)
	if tok != influxql.NUMBER && tok != influxql.INTEGER || err != nil || n > 100 {
		return unexpected(tok, pos, lit, "number from 0 to 100")
	}
	return expect(p, influxql.RPAREN)
}

// addFunction appends a function. Percentiles of one field are one.
func addFunction(list []string, f string) []string {
	if name, _ := meta.SplitFunction(f); name == sketched && slices.Contains(list, f) {
		return list
	}
	return append(list, f)
}

// parse reads [name] ON database FROM policy INTO policy, and what source reads behind the first.
// Without source a name is enough.
func (st *Policies) parse(p *influxql.Parser, source func() error) (err error) {
	if next(p, influxql.ON) {
		p.Unscan()
	} else if st.Name, err = p.ParseIdent(); err != nil {
		return err
	}
	for _, part := range []struct {
		word influxql.Token
		name *string
	}{{influxql.ON, &st.Database}, {influxql.FROM, &st.From}, {influxql.INTO, &st.Into}} {
		if err = expect(p, part.word); err == nil {
			*part.name, err = p.ParseIdent()
		}
		if err == nil && part.word == influxql.FROM && source != nil {
			err = source()
		}
		if err != nil {
			return err
		}
		if part.word == influxql.ON && st.Name != "" && source == nil {
			return nil
		}
	}
	return nil
}

// text returns what parse reads.
func (st *Policies) text(source string) string {
	text := ""
	if st.Name != "" {
		text = " " + influxql.QuoteIdent(st.Name)
	}
	text += " ON " + influxql.QuoteIdent(st.Database)
	if st.From == "" {
		return text
	}
	return text + " FROM " + influxql.QuoteIdent(st.From) + source + " INTO " + influxql.QuoteIdent(st.Into)
}

// DownsampleText returns the statement that makes a downsample of a database as it is now.
func DownsampleText(database string, t *meta.Downsample) string {
	st := CreateDownsample{Policies: Policies{database, t.Name, t.From, t.Into}, Measurement: t.Measurement, Regex: t.Regex, Use: t.Use, Definition: *t.Current()}
	return st.String()
}

// Defined returns the definition with its condition.
func (st *CreateDownsample) Defined() meta.Definition {
	d := st.Definition
	if st.Condition != nil {
		d.Where = st.Condition.String()
	}
	return d
}

func (st *CreateDownsample) condition() influxql.Expr { return st.Condition }

// String returns the statement's text.
func (st *CreateDownsample) String() string {
	source := ""
	switch {
	case st.Regex:
		source = "./" + strings.ReplaceAll(st.Measurement, "/", `\/`) + "/"
	case st.Measurement != "":
		source = "." + influxql.QuoteIdent(st.Measurement)
	}
	var rest, with []string
	for _, f := range st.Functions {
		if name, field := meta.SplitFunction(f); field != "" {
			with = append(with, influxql.QuoteIdent(field)+" "+name)
			continue
		}
		rest = append(rest, f)
	}
	if len(with) > 0 {
		source += " WITH " + strings.Join(with, ", ")
	}
	text := "CREATE DOWNSAMPLE" + st.text(source) + " EVERY " + st.Period.String()
	switch {
	case st.Grouped && len(st.By) == 0:
		text += " GROUP BY ()"
	case st.Grouped:
		text += " GROUP BY " + quoteIdents(st.By)
	case len(st.Without) > 0:
		text += " WITHOUT (" + quoteIdents(st.Without) + ")"
	}
	if len(rest) > 0 {
		text += " AS " + strings.Join(rest, ", ")
	}
	if where := st.Defined().Where; where != "" {
		text += " WHERE " + where
	}
	if st.Use != "" {
		text += " USE " + string(st.Use)
	}
	return text
}

// quoteIdents returns a list of names as a statement has it.
func quoteIdents(names []string) string {
	out := make([]string, len(names))
	for i := range names {
		out[i] = influxql.QuoteIdent(names[i])
	}
	return strings.Join(out, ", ")
}

// DropDownsample is DROP DOWNSAMPLE.
type DropDownsample struct {
	extended
	Policies
}

// parseDropDownsample reads name ON database, or ON database FROM policy INTO policy.
func parseDropDownsample(p *influxql.Parser) (influxql.Statement, error) {
	st := &DropDownsample{}
	return st, st.parse(p, nil)
}

// String returns the statement's text.
func (st *DropDownsample) String() string { return "DROP DOWNSAMPLE" + st.text("") }

// AlterDownsample is ALTER DOWNSAMPLE: other windows or functions, or another use.
type AlterDownsample struct {
	extended
	Policies
	meta.Period                    // Every is 0: as before
	Add, Drop   []string           // functions
	Later       bool               // from now on
	Use         meta.DownsampleUse // "": as before
}

// SkipWindows is ALTER DOWNSAMPLE ... SKIP BEFORE: windows that are given up.
type SkipWindows struct {
	extended
	Policies
	Before int64 // ns since the epoch
}

// parseAlterDownsample reads what parseDropDownsample does, and SKIP BEFORE 'time' or
// [EVERY period] [ADD function, ...] [DROP function, ...] [FROM NOW] [USE use].
func parseAlterDownsample(p *influxql.Parser) (influxql.Statement, error) {
	st := &AlterDownsample{}
	if err := st.parse(p, nil); err != nil {
		return nil, err
	}
	if nextWord(p, "SKIP") {
		skip := &SkipWindows{Policies: st.Policies}
		err := expectWord(p, "BEFORE")
		if err == nil {
			skip.Before, err = parseTime(p)
		}
		return skip, err
	}
	var err error
	if next(p, influxql.EVERY) {
		st.Period, err = parsePeriod(p)
	}
	if err == nil && nextWord(p, "ADD") {
		st.Add, err = parseFunctions(p)
	}
	if err == nil && next(p, influxql.DROP) {
		st.Drop, err = parseFunctions(p)
	}
	change := st.Every > 0 || len(st.Add)+len(st.Drop) > 0
	if err == nil && change && next(p, influxql.FROM) {
		st.Later = true
		err = expectWord(p, "NOW")
	}
	switch {
	case err != nil:
	case nextWord(p, "USE"):
		st.Use, err = parseUse(p, append(slices.Clip(meta.DownsampleUses), meta.UseDefault)...)
	case !change:
		tok, pos, lit := p.ScanIgnoreWhitespace()
		err = unexpected(tok, pos, lit, "SKIP, EVERY, ADD, DROP, USE")
	}
	return st, err
}

// String returns the statement's text.
func (st *AlterDownsample) String() string {
	text := "ALTER DOWNSAMPLE" + st.text("")
	if st.Every > 0 {
		text += " EVERY " + st.Period.String()
	}
	if len(st.Add) > 0 {
		text += " ADD " + strings.Join(st.Add, ", ")
	}
	if len(st.Drop) > 0 {
		text += " DROP " + strings.Join(st.Drop, ", ")
	}
	if st.Later {
		text += " FROM NOW"
	}
	if st.Use != "" {
		text += " USE " + string(st.Use)
	}
	return text
}

// String returns the statement's text.
func (st *SkipWindows) String() string {
	return "ALTER DOWNSAMPLE" + st.text("") + " SKIP BEFORE " + quoteTime(st.Before)
}

// ShowDownsamples is SHOW DOWNSAMPLES: the downsamples and how far they are.
type ShowDownsamples struct{ extended }

func parseShowDownsamples(*influxql.Parser) (influxql.Statement, error) {
	return &ShowDownsamples{}, nil
}

// String returns the statement's text.
func (*ShowDownsamples) String() string { return "SHOW DOWNSAMPLES" }
