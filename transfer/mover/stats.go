package mover

import (
	"slices"
	"strings"

	"tsdbd/exchange"
	"tsdbd/transfer/compare"
	"tsdbd/transfer/journal"
)

// Stats are what a move has done.
type Stats struct {
	Databases, Policies int // made
	Defined             exchange.Defined
	Parts               int // with rows that were moved
	Joined              int // of them into shards that had points, by writes
	Earlier             int // that the journal had
	Expired             int // that the policy would have dropped
	// EarlierFlaws says that values were damaged or missing when the journal got its parts,
	// EarlierRefused what was refused of them. They are not in the other numbers.
	EarlierFlaws   bool
	EarlierRefused journal.Refused
	Rows           int64   // read, with those of parts that had to be read again
	Known          int64   // of them, those that were stored by an earlier move
	Written        int64   // points that a server has stored
	Values, Bytes  int64   // values that were read, or stored in files, and the size of the files
	Share          float64 // of the parts that are finished, as far as they say theirs
	Passed         int64   // about how many values of finished parts were not read
	Refused        int64   // values; by a server, points
	// Statements of the source were run, and the server has refused some of them: what they
	// should make may be there in another form.
	Statements, FailedStatements int64
	Reasons                      []Reason
	// Source and Target are what was read and what the target has of it. Target may have
	// more, where it had points before. Options.Progress does not get them.
	Source, Target compare.Totals
}

// Add adds what another move of the same source has done, without its comparison.
func (s *Stats) Add(o *Stats) {
	s.Parts, s.Earlier, s.Expired = s.Parts+o.Parts, s.Earlier+o.Earlier, s.Expired+o.Expired
	s.Written, s.Refused = s.Written+o.Written, s.Refused+o.Refused
	s.EarlierRefused.Add(o.EarlierRefused)
	for _, r := range o.Reasons {
		s.Reasons = refuse(s.Reasons, r.Text, r.Values)
	}
}

// Reason is why values were refused.
type Reason struct {
	Text   string
	Values int64 // 0 of a statement
}

// maxReasons bounds how many different reasons are kept.
const maxReasons = 20

// refuse counts values that were refused, by reason.
func refuse(reasons []Reason, text string, values int64) []Reason {
	kind := func(text string) string {
		kind, _, _ := strings.Cut(text, " dropped=") // the number of lines differs
		return kind
	}
	i := slices.IndexFunc(reasons, func(r Reason) bool { return kind(r.Text) == kind(text) })
	if i < 0 && len(reasons) < maxReasons {
		i, reasons = len(reasons), append(reasons, Reason{Text: text})
	}
	if i >= 0 {
		reasons[i].Values += values
	}
	return reasons
}

// Missing returns the differences that say that the target lacks something, or has other
// values.
func (s *Stats) Missing() (out []compare.Difference) { return missing(s.Source, s.Target) }

func missing(source, target compare.Totals) (out []compare.Difference) {
	for _, d := range compare.Differences(source, target) {
		if d.Fewer || d.What == "sum" || d.What == "type" {
			out = append(out, d)
		}
	}
	return out
}
