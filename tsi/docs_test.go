package tsi

import (
	"testing"

	"tsdbd/internal/testkit/formats"
)

func TestDocsExamples(t *testing.T) { formats.Examples(t, "tsi.md") }
