package cluster

import (
	"fmt"
	"time"
)

// clock is how far the clock of a member that answers is ahead of that of this node.
type clock struct {
	name  string
	ahead time.Duration
	voter bool
}

// verdict is what the node finds when it compares the clocks of all.
type verdict struct {
	wrong bool   // most voters have another time than this node
	other string // a node with another time, if there is no majority that tells which is right
	text  string // "" if nothing is wrong
}

// farthest bounds what is measured, so that differences do not overflow.
const farthest = 100 * 365 * 24 * time.Hour

// clockOffset returns how far a clock is ahead that was read, in microseconds since 1970,
// at some time between sent and received. What this uncertainty explains is left out.
func clockOffset(read int64, sent, received time.Time) time.Duration {
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

// judge compares the clocks of the members that answer, this node's included. voters is
// how many there are, skew by how much clocks may differ.
func judge(clocks []clock, voters int, skew time.Duration) verdict {
	best, agree := time.Duration(0), 0
	for _, c := range clocks {
		if !c.voter {
			continue
		}
		k := 0
		for _, d := range clocks {
			if d.voter && (d.ahead-c.ahead).Abs() <= skew {
				k++
			}
		}
		if k > agree || k == agree && c.ahead.Abs() < best.Abs() {
			best, agree = c.ahead, k
		}
	}
	if 2*agree > voters {
		if best.Abs() <= skew {
			return verdict{}
		}
		return verdict{wrong: true, text: fmt.Sprintf("its clock is %s that of most voters: set it (NTP)", ahead(-best))}
	}
	for _, c := range clocks {
		if c.ahead.Abs() > skew {
			return verdict{other: c.name, text: fmt.Sprintf("its clock is %s that of %s, and no majority tells which is right: set both (NTP)", ahead(-c.ahead), c.name)}
		}
	}
	return verdict{}
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
