package graphite

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"tsdbd/model"
)

// DefaultSeparator joins parts of a path that a template puts together.
const DefaultSeparator = "."

// The words of templates that are not names of tags.
const (
	wordMeasurement  = "measurement"
	wordMeasurements = "measurement*"
	wordField        = "field"
	wordFields       = "field*"
)

// template turns a path into the parts of a point.
type template struct {
	words     []string // one per part of the path; "" skips it
	tags      model.Tags
	separator string
}

// newTemplate reads the words of a template.
func newTemplate(text string, tags model.Tags, separator string) (*template, error) {
	t := &template{words: strings.Split(text, "."), tags: tags, separator: separator}
	count := map[string]int{}
	for _, w := range t.words {
		count[w]++
	}
	switch {
	case count[wordMeasurement]+count[wordMeasurements] == 0:
		return nil, fmt.Errorf("no measurement in template %q", text)
	case count[wordField] > 1:
		return nil, fmt.Errorf("field occurs twice in template %q", text)
	case count[wordMeasurements] > 0 && count[wordFields] > 0:
		return nil, fmt.Errorf("both measurement* and field* in template %q", text)
	}
	return t, nil
}

// parts is what a template makes of a path.
type parts struct {
	measurement []string
	field       string
	tags        model.Tags
}

// apply splits a path. The parts share path's memory where nothing is joined.
func (t *template) apply(p *parts, path string) {
	p.measurement, p.field, p.tags = p.measurement[:0], "", append(p.tags[:0], t.tags...)
	rest := path
	for _, w := range t.words {
		if rest == "" {
			return
		}
		if w == wordMeasurements {
			for part := range strings.SplitSeq(rest, ".") {
				p.measurement = append(p.measurement, part)
			}
			return
		}
		if w == wordFields {
			p.field = strings.ReplaceAll(rest, ".", t.separator)
			return
		}
		var part string
		part, rest, _ = strings.Cut(rest, ".")
		switch w {
		case "":
		case wordMeasurement:
			p.measurement = append(p.measurement, part)
		case wordField:
			p.field = part
		default:
			p.addTag(w, part, t.separator)
		}
	}
}

// addTag adds a tag, or joins it to what is there.
func (p *parts) addTag(key, value, separator string) {
	for i := range p.tags {
		if p.tags[i].Key == key {
			p.tags[i].Value += separator + value
			return
		}
	}
	p.tags = append(p.tags, model.Tag{Key: key, Value: value})
}

// node is a part of filters: the following parts, and the template of the filter that
// ends here.
type node struct {
	next     map[string]*node
	template *template
}

// templates finds the template of a path.
type templates struct {
	root     node
	fallback *template
}

// newTemplates parses the templates of the configuration.
func newTemplates(lines []string, separator string) (*templates, error) {
	if separator == "" {
		separator = DefaultSeparator
	}
	fallback, err := newTemplate(wordMeasurements, nil, DefaultSeparator)
	if err != nil {
		return nil, err
	}
	t := &templates{fallback: fallback}
	seen := map[string]bool{}
	for _, line := range lines {
		if err := t.add(line, separator, seen); err != nil {
			return nil, fmt.Errorf("graphite template %q: %w", line, err)
		}
	}
	return t, nil
}

func (t *templates) add(line, separator string, seen map[string]bool) error {
	words := strings.Fields(line)
	filter, tagText := "", ""
	switch n := len(words); {
	case n == 0 || n > 3:
		return errors.New("want [filter] template [tag=value,...]")
	case n == 3:
		filter, words, tagText = words[0], words[1:2], words[2]
	case n == 2 && strings.Contains(words[1], "="):
		words, tagText = words[:1], words[1]
	case n == 2:
		filter, words = words[0], words[1:]
	}
	if seen[filter] {
		return fmt.Errorf("filter %q occurs twice", filter)
	}
	seen[filter] = true
	var tags model.Tags
	if tagText != "" {
		var err error
		if tags, err = ParseTags(strings.Split(tagText, ",")); err != nil {
			return err
		}
	}
	made, err := newTemplate(words[0], tags, separator)
	if err != nil {
		return err
	}
	if filter == "" {
		t.fallback = made
		return nil
	}
	n := &t.root
	for part := range strings.SplitSeq(filter, ".") {
		if part == "" || part != "*" && strings.Contains(part, "*") {
			return fmt.Errorf("a part of filter %q is empty or has a * next to other letters", filter)
		}
		if n.next == nil {
			n.next = map[string]*node{}
		}
		if n.next[part] == nil {
			n.next[part] = &node{}
		}
		n = n.next[part]
	}
	n.template = made
	return nil
}

// find returns the template of a path. A filter also matches longer paths.
func (t *templates) find(path string) *template {
	n := &t.root
	for rest, more := path, true; more && len(n.next) > 0; {
		var part string
		part, rest, more = strings.Cut(rest, ".")
		next := n.next[part]
		if next == nil {
			next = n.next["*"]
		}
		if next == nil {
			break
		}
		n = next
	}
	if n.template == nil {
		return t.fallback
	}
	return n.template
}

// ParseTags reads tags written key=value.
func ParseTags(list []string) (model.Tags, error) {
	var tags model.Tags
	for _, text := range list {
		key, value, ok := strings.Cut(text, "=")
		if !ok || key == "" || value == "" || strings.Contains(value, "=") {
			return nil, fmt.Errorf("tag %q is not key=value", text)
		}
		if slices.ContainsFunc(tags, func(t model.Tag) bool { return t.Key == key }) {
			return nil, fmt.Errorf("tag %q occurs twice", key)
		}
		tags = append(tags, model.Tag{Key: key, Value: value})
	}
	return tags, nil
}
