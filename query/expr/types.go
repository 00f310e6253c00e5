package expr

import (
	"github.com/influxdata/influxql"

	"tsdbd/model"
)

// DataType returns the type that InfluxQL gives to fields of type t.
func DataType(t model.FieldType) influxql.DataType {
	switch t {
	case model.Float:
		return influxql.Float
	case model.Integer:
		return influxql.Integer
	case model.Unsigned:
		return influxql.Unsigned
	case model.String:
		return influxql.String
	case model.Boolean:
		return influxql.Boolean
	}
	return influxql.Unknown
}

// FieldType returns the type of the values of type t. Those of tags are strings.
func FieldType(t influxql.DataType) model.FieldType {
	switch t {
	case influxql.Float:
		return model.Float
	case influxql.Integer:
		return model.Integer
	case influxql.Unsigned:
		return model.Unsigned
	case influxql.String, influxql.Tag:
		return model.String
	case influxql.Boolean:
		return model.Boolean
	}
	return model.Unknown
}
