package column

import (
	"slices"
	"strings"

	"tsdbd/model"
)

// Field is a field key with its type.
type Field struct {
	Key  string
	Type model.FieldType
}

// UnionFields sorts fields by key; of those with one key the first stays.
func UnionFields(fields []Field) []Field {
	byKey := func(a, b Field) int { return strings.Compare(a.Key, b.Key) }
	if !slices.IsSortedFunc(fields, byKey) {
		slices.SortStableFunc(fields, byKey)
	}
	return slices.CompactFunc(fields, func(a, b Field) bool { return a.Key == b.Key })
}

// FindField returns the place of a key among fields that are sorted by key.
func FindField(fields []Field, key string) (int, bool) {
	return slices.BinarySearchFunc(fields, key, func(f Field, key string) int { return strings.Compare(f.Key, key) })
}
