package lineproto

import (
	"tsdbd/model/point"
)

// parseSlow is Parse without the fast path.
func (p *Parser) parseSlow(batch *point.Batch, table *point.Table, body []byte, opt Options) (int, *Errors) {
	opt.Unit = max(opt.Unit, 1)
	opt.MaxErrorBytes = defaultMaxErrorBytes
	opt.Now = truncate(opt.Now, opt.Unit)
	p.table, p.view, p.batch, p.opt, p.last = table, table.View(), batch, opt, 0
	before := len(batch.Rows)
	for pos := 0; pos < len(body); {
		pos = p.slow(body, pos)
	}
	errs := p.errs
	p.errs = nil
	return len(batch.Rows) - before, errs
}
