// Package engine plans and runs SELECT. Select is its entry, Explain and
// ExplainAnalyze describe how a statement runs.
package engine
