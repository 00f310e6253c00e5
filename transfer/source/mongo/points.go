package mongo

import (
	"encoding/json"
	"fmt"
)

// points are the elements of an array that are still to be read as documents.
type points struct {
	elements [][]byte // in the text of their document
	others   []byte   // the members of the document besides the array, each with a comma behind it
	line     int
	text     []byte // of the latest one
}

// next returns the next document, valid until the next call.
func (d *reader) next() (document, error) {
	p := &d.points
	if len(p.elements) == 0 {
		whole, err := d.in.next()
		if err != nil || whole.reason != "" || d.opt.Points == "" {
			return whole, err
		}
		is := false
		if is, whole.reason = p.open(whole.text, d.opt.Points); !is || whole.reason != "" {
			return whole, nil
		}
		p.line = whole.line
	}
	inner := p.elements[0]
	p.elements = p.elements[1:]
	p.text = append(append(append(p.text[:0], '{'), p.others...), inner[1:]...)
	return document{text: p.text, line: p.line}, nil
}

// open takes a document apart. is says that it has the array.
func (p *points) open(text []byte, name string) (is bool, reason string) {
	if !json.Valid(text) {
		return false, "" // reading it says so
	}
	p.elements, p.others = p.elements[:0], p.others[:0]
	for m := range members(text) {
		if m.name != name {
			quoted, _ := json.Marshal(m.name) // a text has always a form
			p.others = append(append(append(append(p.others, quoted...), ':'), m.raw...), ',')
			continue
		}
		if is || m.raw[0] != '[' {
			return true, fmt.Sprintf("%s is no array of documents", name)
		}
		is = true
		for e := range members(m.raw) {
			n := 0
			if e.raw[0] == '{' {
				for range members(e.raw) {
					n++
				}
			}
			if n == 0 {
				p.elements = p.elements[:0]
				return true, fmt.Sprintf("%s.%s is no document with members", name, e.name)
			}
			p.elements = append(p.elements, e.raw)
		}
	}
	if is && len(p.elements) == 0 {
		return true, fmt.Sprintf("%s has no element", name)
	}
	return is, ""
}
