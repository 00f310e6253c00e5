// Package tags makes tag values, and regular expressions over them, that meet each
// other often and hold what is awkward: escapes, several bytes a rune, bytes that are
// no text.
package tags

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// Value returns a value.
func Value(r *rand.Rand) string {
	switch r.IntN(6) {
	case 0:
		return fmt.Sprint("host_", r.IntN(40))
	case 1:
		return []string{"eu", "eu-west", "eu-east", "us", "US", "a b", "x,y", "k=v", "línea\nzwei", "\xff\xfe", "日本", "日本語"}[r.IntN(12)]
	case 2:
		return strings.Repeat("long", r.IntN(20)+1)
	default:
		return fmt.Sprint("v", r.IntN(5))
	}
}

// Regexes are expressions of every kind.
var Regexes = []string{
	"", ".", ".*", "^$", "^v", "v[12]$", "^(v1|v2|eu)$", "host_1", "^host_(1|2)[0-9]$", "^host_\\d+$", "(?i)us", "eu|us",
	"^eu-?", "^(eu|us)$|^v3$", "a b", "日", "日本$", "^日本.$", "\\bb", "\\Bw", "^l.*g$", "(?m)^zwei$", "(?s)línea.zwei", "línea.zwei",
	"^(?:long){2,3}$", "[^a-z]", "^[a-c]", "^(a|b|ab?c*)", "\\x{FFFD}", "^\\x{FFFD}", "$^", "x*", "^x*$", "[[:upper:]]+", "^.{2}$", "^.{2,4}$", "o{2}|st_3", "^v1$|west",
}
