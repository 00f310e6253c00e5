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
	var p requestParser
	var accepted []uint64
	r := proto.Read(b)
	for r.Next() {
		switch {
		case r.Field == 1 && r.Data != nil:
			if len(req.Queries) == maxQueries {
				return req, fmt.Errorf("more than %d queries", maxQueries)
			}
			q, err := p.query(r.Data)
			if err != nil {
				return req, err
			}
			req.Queries = append(req.Queries, q)
		case r.Field == 2:
			if accepted, err = proto.AppendVarints(accepted, &r.Member, maxAccepted, func(v uint64) uint64 { return v }); err != nil {
				return req, err
			}
		}
	}
	if r.Err != nil {
		return req, r.Err
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

func (p *requestParser) query(b []byte) (q Query, err error) {
	r := proto.Read(b)
	for r.Next() {
		switch {
		case r.Field == 1:
			q.Start = int64(r.Num)
		case r.Field == 2:
			q.End = int64(r.Num)
		case r.Field == 3 && r.Data != nil:
			matcher, err := p.matcher(r.Data)
			if err != nil {
				return q, err
			}
			q.Matchers = append(q.Matchers, matcher)
		}
	}
	return q, r.Err
}

func (p *requestParser) matcher(b []byte) (*labels.Matcher, error) {
	if p.matchers++; p.matchers > maxMatchers {
		return nil, errors.New("too many matchers")
	}
	var kind uint64
	var name, value string
	r := proto.Read(b)
	for r.Next() {
		switch r.Field {
		case 1:
			kind = r.Num
		case 2:
			name = string(r.Data)
		case 3:
			value = string(r.Data)
		}
	}
	if r.Err != nil {
		return nil, r.Err
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
