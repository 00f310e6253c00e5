package parquet

import (
	"reflect"

	"github.com/parquet-go/parquet-go"

	"tsdbd/model"
	"tsdbd/model/column"
)

// schema is the root of a table: a parquet.Group whose columns have an order.
type schema struct {
	parquet.Group
	order []parquet.Field
}

// Fields implements parquet.Node.
func (s *schema) Fields() []parquet.Field { return s.order }

// GoType implements parquet.Node. Rows never have the form of a type of Go, whose fields
// could not have all names of columns.
func (s *schema) GoType() reflect.Type { return reflect.TypeFor[struct{}]() }

// newSchema returns the columns of a table with these tags and fields.
func newSchema(tags []string, fields []column.Field) *schema {
	s := &schema{Group: parquet.Group{"time": parquet.Encoded(parquet.Timestamp(parquet.Nanosecond), &parquet.DeltaBinaryPacked)}}
	order := []string{"time"}
	for _, f := range fields {
		s.Group[f.Key] = parquet.Optional(leaf(f.Type))
	}
	for _, name := range tags {
		for s.Group[name] != nil {
			name += "_tag"
		}
		s.Group[name] = parquet.Optional(leaf(model.String))
		order = append(order, name)
	}
	for _, f := range fields {
		order = append(order, f.Key)
	}
	byName := map[string]parquet.Field{}
	for _, f := range s.Group.Fields() {
		byName[f.Name()] = f
	}
	for _, name := range order {
		s.order = append(s.order, byName[name])
	}
	return s
}

// leaf returns a column of a type of fields.
func leaf(t model.FieldType) parquet.Node {
	switch t {
	case model.Integer:
		return parquet.Encoded(parquet.Leaf(parquet.Int64Type), &parquet.DeltaBinaryPacked)
	case model.Unsigned:
		return parquet.Encoded(parquet.Uint(64), &parquet.DeltaBinaryPacked)
	case model.Boolean:
		return parquet.Leaf(parquet.BooleanType)
	case model.String:
		return parquet.Encoded(parquet.String(), &parquet.RLEDictionary)
	}
	return parquet.Leaf(parquet.DoubleType)
}
