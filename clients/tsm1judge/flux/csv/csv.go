// Package csv has what InfluxDB's module names of Flux' CSV, and does nothing.
package csv

import "io"

// ResultEncoderConfig stands for a type of Flux.
type ResultEncoderConfig struct{}

// DefaultEncoderConfig returns nothing.
func DefaultEncoderConfig() ResultEncoderConfig { return ResultEncoderConfig{} }

// ResultEncoder stands for a type of Flux.
type ResultEncoder struct{}

// NewResultEncoder returns nothing.
func NewResultEncoder(ResultEncoderConfig) *ResultEncoder { return nil }

// EncodeError returns the error.
func (*ResultEncoder) EncodeError(_ io.Writer, err error) error { return err }
