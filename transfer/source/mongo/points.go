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

// next returns the text of the next document, valid until the next call, and the number of
// its line, or the reason why it is none.
func (d *Reader) next() (text []byte, line int, reason string, err error) {
	p := &d.points
	if len(p.elements) == 0 {
		if text, line, reason, err = d.in.next(); err != nil || reason != "" || d.opt.Points == "" {
			return text, line, reason, err
		}
		p.line = line
		is := false
		if is, reason = p.open(text, d.opt.Points); !is || reason != "" {
			return text, line, reason, nil
		}
	}
	inner := p.elements[0]
	p.elements = p.elements[1:]
	p.text = append(append(append(p.text[:0], '{'), p.others...), inner[1:]...)
	return p.text, p.line, "", nil
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
