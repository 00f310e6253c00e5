// Package check renders the chart for Kubernetes with Helm, and decodes what comes out into
// the types of Kubernetes' own API, unknown fields refused: so a misspelt field or one in
// the wrong place fails here and not on a cluster. It is a module of its own, for its
// libraries have no place in the program.
package check
