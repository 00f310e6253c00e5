// Package clock compares the clocks of the nodes of a cluster.
package clock

import (
	"fmt"
	"time"
)

// Reading is how far the clock of a member that answers is ahead of that of this node.
type Reading struct {
	Name  string
	Ahead time.Duration
	Voter bool
}

// Verdict is what the node finds when it compares the clocks of all.
type Verdict struct {
	Wrong bool   // most voters have another time than this node
	Other string // a node with another time, if there is no majority that tells which is right
	Text  string // "" if nothing is wrong
}

// farthest bounds what is measured, so that differences do not overflow.
const farthest = 100 * 365 * 24 * time.Hour

// Offset returns how far a clock is ahead that was read, in microseconds since 1970,
// at some time between sent and received. What this uncertainty explains is left out.
func Offset(read int64, sent, received time.Time) time.Duration {
	half := max(received.Sub(sent)/2, 0)
	ahead := min(max(time.UnixMicro(read).Sub(received.Add(-half)), -farthest), farthest)
	switch {
	case ahead > half:
		return ahead - half
	case ahead < -half:
		return ahead + half
	}
	return 0
}

// Judge compares the clocks of the members that answer, this node's included. voters is
// how many there are, skew by how much clocks may differ.
func Judge(clocks []Reading, voters int, skew time.Duration) Verdict {
	best, agree := time.Duration(0), 0
	for _, c := range clocks {
		if !c.Voter {
			continue
		}
		k := 0
		for _, d := range clocks {
			if d.Voter && (d.Ahead-c.Ahead).Abs() <= skew {
				k++
			}
		}
		if k > agree || k == agree && c.Ahead.Abs() < best.Abs() {
			best, agree = c.Ahead, k
		}
	}
	if 2*agree > voters {
		if best.Abs() <= skew {
			return Verdict{}
		}
		return Verdict{Wrong: true, Text: fmt.Sprintf("its clock is %s that of most voters: set it (NTP)", ahead(-best))}
	}
	for _, c := range clocks {
		if c.Ahead.Abs() > skew {
			return Verdict{Other: c.Name, Text: fmt.Sprintf("its clock is %s that of %s, and no majority tells which is right: set both (NTP)", ahead(-c.Ahead), c.Name)}
		}
	}
	return Verdict{}
}

// ahead returns how far a clock is ahead of another one, or behind it, as text.
func ahead(d time.Duration) string {
	way := "ahead of"
	if d < 0 {
		way = "behind"
	}
	by := d.Abs()
	switch {
	case by > farthest/10*9:
		return "decades " + way
	case by >= 72*time.Hour:
		return fmt.Sprintf("%d days %s", by/(24*time.Hour), way)
	case by >= time.Minute:
		return fmt.Sprintf("%s %s", by.Round(time.Second), way)
	}
	return fmt.Sprintf("%s %s", by.Round(time.Millisecond), way)
}
