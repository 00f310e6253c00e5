package remote

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/query/syntax"
)

const (
	// maxQueries bounds the queries of a request.
	maxQueries = 1000
	// maxMatchers bounds the matchers of a request.
	maxMatchers = 5000
)

// ReadRequest is a request of remote read.
type ReadRequest struct {
	Queries []Query
	// Chunks asks for frames of chunks (Frames), otherwise for samples (Samples).
	Chunks bool
}

// Query is one query of a ReadRequest. The hints of a query say nothing that changes
// its answer; they are passed over.
type Query struct {
	Start, End int64 // ms since the epoch, both inclusive
	Matchers   []*labels.Matcher
}

// The types of answers.
const (
	typeSamples = 0
	typeChunks  = 1
)

// ParseReadRequest reads a ReadRequest. The request does not refer to b.
func ParseReadRequest(b []byte) (req ReadRequest, err error) {
	p := requestParser{}
	rest := message(b)
	var m member
	var accepted []uint64
	for {
		more, err := rest.next(&m)
		if err != nil {
			return req, err
		}
		if !more {
			break
		}
		switch {
		case m.field == 1 && m.data != nil:
			if len(req.Queries) == maxQueries {
				return req, fmt.Errorf("more than %d queries", maxQueries)
			}
			q, err := p.query(m.data)
			if err != nil {
				return req, err
			}
			req.Queries = append(req.Queries, q)
		case m.field == 2:
			if accepted, err = appendNumbers(accepted, &m); err != nil {
				return req, err
			}
		}
	}
	// The first type counts that the server knows.
	known := slices.IndexFunc(accepted, func(t uint64) bool { return t == typeSamples || t == typeChunks })
	if len(accepted) > 0 && known < 0 {
		return req, fmt.Errorf("the server supports none of the response types %d: send %d for samples or %d for chunks", accepted, typeSamples, typeChunks)
	}
	req.Chunks = known >= 0 && accepted[known] == typeChunks
	return req, nil
}

// requestParser bounds what the queries of a request have together.
type requestParser struct {
	regexes  syntax.RegexBudget
	matchers int
}

func (p *requestParser) query(b message) (q Query, err error) {
	var m member
	for {
		more, err := b.next(&m)
		switch {
		case !more:
			return q, err
		case m.field == 1:
			q.Start = int64(m.num)
		case m.field == 2:
			q.End = int64(m.num)
		case m.field == 3 && m.data != nil:
			matcher, err := p.matcher(m.data)
			if err != nil {
				return q, err
			}
			q.Matchers = append(q.Matchers, matcher)
		}
	}
}

func (p *requestParser) matcher(b message) (*labels.Matcher, error) {
	if p.matchers++; p.matchers > maxMatchers {
		return nil, errors.New("too many matchers")
	}
	var kind uint64
	var name, value string
	var m member
	for {
		more, err := b.next(&m)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		switch m.field {
		case 1:
			kind = m.num
		case 2:
			name = string(m.data)
		case 3:
			value = string(m.data)
		}
	}
	types := []labels.MatchType{labels.MatchEqual, labels.MatchNotEqual, labels.MatchRegexp, labels.MatchNotRegexp}
	if kind >= uint64(len(types)) {
		return nil, fmt.Errorf("unknown match type: %d", kind)
	}
	if kind >= 2 {
		if err := p.regexes.Add(value); err != nil {
			return nil, err
		}
	}
	return labels.NewMatcher(types[kind], name, value)
}
