package query

import "fmt"

func technical(c *call, in *cells) (*cells, error) {
	return nil, fmt.Errorf("unsupported function: %s()", c.fn)
}

func (l *level) holtWinters(c *call, in *cells) (*cells, error) {
	return nil, fmt.Errorf("unsupported function: %s()", c.fn)
}
