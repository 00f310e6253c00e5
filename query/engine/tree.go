package engine

import (
	"fmt"
)

// planNode is a line of a tree of lines.
type planNode struct {
	text string
	kids []*planNode
}

func (n *planNode) add(format string, args ...any) *planNode {
	kid := &planNode{text: fmt.Sprintf(format, args...)}
	n.kids = append(n.kids, kid)
	return kid
}

// lines appends the lines below a node, drawn as a tree.
func (n *planNode) lines(dst []string, indent string) []string {
	for i, kid := range n.kids {
		branch, below := "├── ", "│   "
		if i == len(n.kids)-1 {
			branch, below = "└── ", "    "
		}
		dst = append(dst, indent+branch+kid.text)
		dst = kid.lines(dst, indent+below)
	}
	return dst
}
