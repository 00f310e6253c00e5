package tsi

import "slices"

// sortedNames sorts names in place and returns them without equal ones.
func sortedNames(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}
