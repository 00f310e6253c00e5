package moves

import (
	"slices"

	"tsdbd/model"
	"tsdbd/model/column"
)

// Renames are the renames of fields that concern some rows, the latest first.
type Renames []model.Rename

// Original returns the key under which rows have a field, "" if they have none.
func (r Renames) Original(key string) string {
	for _, x := range r {
		switch key {
		case x.To:
			key = x.From
		case x.From:
			return ""
		}
	}
	return key
}

// Originals returns fields by the keys under which rows have them.
func (r Renames) Originals(fields []column.Field) []column.Field {
	if len(r) == 0 {
		return fields
	}
	fields = slices.Clone(fields)
	for i := range fields {
		fields[i].Key = r.Original(fields[i].Key)
	}
	return fields
}

// Current returns the present key of a field that rows have under key, "" if it is gone: a
// field takes the key of another one only when no row has that.
func (r Renames) Current(key string) string {
	for _, x := range slices.Backward(r) {
		switch key {
		case x.From:
			key = x.To
		case x.To:
			return ""
		}
	}
	return key
}

// Fields returns the fields of rows by their present names.
func (r Renames) Fields(fields []column.Field) []column.Field {
	if len(r) == 0 {
		return fields
	}
	out := make([]column.Field, 0, len(fields))
	for _, f := range fields {
		if f.Key = r.Current(f.Key); f.Key != "" {
			out = append(out, f)
		}
	}
	return column.UnionFields(out)
}
