package syntax

import (
	"errors"
	"strings"

	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// Move is ALTER MEASUREMENT or UPDATE: series, or a field, get other names.
type Move struct {
	extended
	Change    model.Change
	Condition influxql.Expr // nil: all series of the measurement
}

// Sources returns the measurement and the one that its series are to belong to.
func (st *Move) Sources() influxql.Sources {
	sources := influxql.Sources{&influxql.Measurement{Name: st.Change.Measurement}}
	if st.Change.To != st.Change.Measurement {
		sources = append(sources, &influxql.Measurement{Name: st.Change.To})
	}
	return sources
}

// parseMoved reads the measurement, which the series keep so far.
func parseMoved(p *influxql.Parser) (*Move, error) {
	name, err := p.ParseIdent()
	return &Move{Change: model.Change{Measurement: name, To: name}}, err
}

// parseAlterMeasurement reads measurement RENAME [TAG | FIELD name] TO name.
func parseAlterMeasurement(p *influxql.Parser) (influxql.Statement, error) {
	st, err := parseMoved(p)
	if err != nil {
		return nil, err
	}
	c := &st.Change
	if err = expectWord(p, "RENAME"); err != nil {
		return nil, err
	}
	to := &c.To
	var rename *model.Rename
	switch {
	case nextWord(p, "TAG"):
		rename = &c.RenameTag
	case nextWord(p, "FIELD"):
		rename = &c.RenameField
	}
	if rename != nil {
		if rename.From, err = p.ParseIdent(); err != nil {
			return nil, err
		}
		to = &rename.To
	}
	if err = expect(p, influxql.TO); err != nil {
		return nil, err
	}
	*to, err = p.ParseIdent()
	return st, err
}

// parseUpdate reads measurement SET tag = 'value' [, ...] [WHERE condition], or
// measurement DROP TAG tag [, ...] [WHERE condition].
func parseUpdate(p *influxql.Parser) (influxql.Statement, error) {
	st, err := parseMoved(p)
	if err != nil {
		return nil, err
	}
	c := &st.Change
	if next(p, influxql.DROP) {
		err = parseDropped(p, c)
	} else {
		err = parseSet(p, c)
	}
	if err != nil {
		return nil, err
	}
	if next(p, influxql.WHERE) {
		st.Condition, err = p.ParseExpr()
	}
	return st, err
}

func parseDropped(p *influxql.Parser, c *model.Change) error {
	if err := expectWord(p, "TAG"); err != nil {
		return err
	}
	for {
		key, err := p.ParseIdent()
		if err != nil {
			return err
		}
		c.Drop = append(c.Drop, key)
		if !next(p, influxql.COMMA) {
			return nil
		}
	}
}

func parseSet(p *influxql.Parser, c *model.Change) error {
	if tok, pos, lit := p.ScanIgnoreWhitespace(); tok != influxql.SET {
		return unexpected(tok, pos, lit, "SET, DROP")
	}
	for {
		key, err := p.ParseIdent()
		if err != nil {
			return err
		}
		if err := expect(p, influxql.EQ); err != nil {
			return err
		}
		value, err := p.ParseExpr()
		if err != nil {
			return err
		}
		text, ok := value.(*influxql.StringLiteral)
		switch {
		case !ok:
			return errors.New("the value of a tag is a string: " + value.String())
		case text.Val == "":
			return errors.New("a tag has no empty value: use DROP TAG " + influxql.QuoteIdent(key))
		}
		c.Set = append(c.Set, model.Tag{Key: key, Value: text.Val})
		if !next(p, influxql.COMMA) {
			c.Set.Sort()
			return nil
		}
	}
}

func (st *Move) condition() influxql.Expr { return st.Condition }

// String returns the statement's text.
func (st *Move) String() string {
	c := &st.Change
	ident := func(name string) string { return influxql.QuoteIdent(name) }
	alter := "ALTER MEASUREMENT " + ident(c.Measurement) + " RENAME "
	var text string
	switch {
	case c.RenameField != model.Rename{}:
		return alter + "FIELD " + ident(c.RenameField.From) + " TO " + ident(c.RenameField.To)
	case c.RenameTag != model.Rename{}:
		return alter + "TAG " + ident(c.RenameTag.From) + " TO " + ident(c.RenameTag.To)
	case len(c.Set) > 0:
		var set []string
		for _, t := range c.Set {
			set = append(set, ident(t.Key)+" = "+influxql.QuoteString(t.Value))
		}
		text = "UPDATE " + ident(c.Measurement) + " SET " + strings.Join(set, ", ")
	case len(c.Drop) > 0:
		var drop []string
		for _, key := range c.Drop {
			drop = append(drop, ident(key))
		}
		text = "UPDATE " + ident(c.Measurement) + " DROP TAG " + strings.Join(drop, ", ")
	default:
		return alter + "TO " + ident(c.To)
	}
	if st.Condition != nil {
		text += " WHERE " + st.Condition.String()
	}
	return text
}

// nextWord takes the next token if it is a word, which may be one of the grammar or not.
func nextWord(p *influxql.Parser, word string) bool {
	tok, _, lit := p.ScanIgnoreWhitespace()
	if strings.EqualFold(lit, word) || strings.EqualFold(tok.String(), word) {
		return true
	}
	p.Unscan()
	return false
}

// expectWord takes the next token, which must be a word.
func expectWord(p *influxql.Parser, word string) error {
	if !nextWord(p, word) {
		tok, pos, lit := p.ScanIgnoreWhitespace()
		return unexpected(tok, pos, lit, word)
	}
	return nil
}
