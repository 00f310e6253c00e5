package remote

import (
	"errors"
	"fmt"
	"slices"

	"github.com/prometheus/prometheus/model/labels"

	"tsdbd/query/syntax"

	"tsdbd/prom/proto"
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

// maxAccepted bounds the types that are read of a list of them.
const maxAccepted = 16

// ParseReadRequest reads a ReadRequest. The request does not refer to b.
func ParseReadRequest(b []byte) (req ReadRequest, err error) {
	p := requestParser{}
	rest := proto.Message(b)
	var m proto.Member
	var accepted []uint64
	for {
		more, err := rest.Next(&m)
		if err != nil {
			return req, err
		}
		if !more {
			break
		}
		switch {
		case m.Field == 1 && m.Data != nil:
			if len(req.Queries) == maxQueries {
				return req, fmt.Errorf("more than %d queries", maxQueries)
			}
			q, err := p.query(m.Data)
			if err != nil {
				return req, err
			}
			req.Queries = append(req.Queries, q)
		case m.Field == 2:
			if accepted, err = proto.AppendVarints(accepted, &m, maxAccepted, func(v uint64) uint64 { return v }); err != nil {
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

func (p *requestParser) query(b proto.Message) (q Query, err error) {
	var m proto.Member
	for {
		more, err := b.Next(&m)
		switch {
		case !more:
			return q, err
		case m.Field == 1:
			q.Start = int64(m.Num)
		case m.Field == 2:
			q.End = int64(m.Num)
		case m.Field == 3 && m.Data != nil:
			matcher, err := p.matcher(m.Data)
			if err != nil {
				return q, err
			}
			q.Matchers = append(q.Matchers, matcher)
		}
	}
}

func (p *requestParser) matcher(b proto.Message) (*labels.Matcher, error) {
	if p.matchers++; p.matchers > maxMatchers {
		return nil, errors.New("too many matchers")
	}
	var kind uint64
	var name, value string
	var m proto.Member
	for {
		more, err := b.Next(&m)
		if err != nil {
			return nil, err
		}
		if !more {
			break
		}
		switch m.Field {
		case 1:
			kind = m.Num
		case 2:
			name = string(m.Data)
		case 3:
			value = string(m.Data)
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
