package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"slices"

	"tsdbd/internal/binio"
	"tsdbd/internal/hll"
	"tsdbd/model"
	"tsdbd/query/engine/read"
	"tsdbd/query/expr"
)

// Partial states travel between stores as docs/formats/partial.md says: by
// measurement, tag values and start of the window, so that they depend on nothing
// but the rows. The same states have the same bytes.

// stateVersion is the first byte of encoded states.
const stateVersion = 1

// stateHeader appends what the states of a plan depend on. dims is the number of
// tag values of a group.
func (p *aggPlan) stateHeader(dst []byte, dims int) []byte {
	dst = append(dst, stateVersion)
	dst = binary.AppendUvarint(dst, uint64(dims))
	dst = binary.AppendUvarint(dst, uint64(p.aux))
	dst = binary.AppendUvarint(dst, uint64(len(p.slots)))
	for i := range p.slots {
		s := &p.slots[i]
		flags := byte(0)
		if s.timed {
			flags |= 1
		}
		if s.unique {
			flags |= 2
		}
		dst = append(dst, byte(s.kind), byte(s.typ), flags)
		dst = binary.AppendUvarint(dst, uint64(s.n))
		dst = binary.AppendUvarint(dst, uint64(s.tags))
		dst = binary.AppendUvarint(dst, s.seed)
	}
	return dst
}

// encode appends the states of the plan's table, which holds no rows of
// subqueries. dims is the number of tag values of a group.
func (p *aggPlan) encode(dst []byte, groups *read.GroupTable, dims int) []byte {
	type window struct {
		start int64
		st    []aggState
	}
	begin := len(dst)
	dst = p.stateHeader(dst, dims)
	var body []byte
	first, last, met := int64(0), int64(0), 0
	for _, g := range groups.Order(true) {
		var windows []window
		p.table.group(g, func(number int64, st []aggState) {
			if slices.ContainsFunc(st, func(s aggState) bool { return s.n != 0 }) {
				windows = append(windows, window{p.startOf(number), st})
			}
		})
		if len(windows) == 0 {
			continue
		}
		if lo, hi := windows[0].start, windows[len(windows)-1].start; met == 0 {
			first, last = lo, hi
		} else {
			first, last = min(first, lo), max(last, hi)
		}
		met++
		body = binio.AppendString(body, groups.Names[g])
		for _, v := range groups.Tuples[g] {
			body = binio.AppendString(body, v)
		}
		body = binary.AppendUvarint(body, uint64(len(windows)))
		before := int64(0)
		for i, w := range windows {
			if i == 0 {
				body = binary.AppendUvarint(body, binio.ZigZag(w.start))
			} else {
				body = binary.AppendUvarint(body, uint64(w.start-before))
			}
			before = w.start
			for k := range p.slots {
				body = p.table.appendState(body, &w.st[k], &p.slots[k], p.aux > 0)
			}
		}
	}
	if dst = binary.AppendUvarint(dst, uint64(met)); met > 0 {
		dst = binary.AppendUvarint(dst, binio.ZigZag(first))
		dst = binary.AppendUvarint(dst, binio.ZigZag(last))
	}
	dst = append(dst, body...)
	return binary.LittleEndian.AppendUint32(dst, binio.Checksum(dst[begin:]))
}

// appendState appends one state. aux says that chosen rows have other columns.
func (t *aggTable) appendState(dst []byte, st *aggState, sl *slot, aux bool) []byte {
	switch sl.kind {
	case slotCount:
		return binary.AppendUvarint(dst, uint64(st.n))
	case slotSum, slotSquare:
		if dst = binary.AppendUvarint(dst, uint64(st.n)); st.n == 0 {
			return dst
		}
		dst = binary.LittleEndian.AppendUint64(dst, st.a)
		if sl.typ == model.Float {
			dst = binary.LittleEndian.AppendUint64(dst, st.b)
		}
		return dst
	case slotTally:
		if st.n == 0 {
			return append(dst, 0)
		}
		all := &t.tallies[st.a]
		dst = binary.AppendUvarint(dst, uint64(len(all.entries)))
		for _, i := range all.order(t.stop, all.compare) {
			e := &all.entries[i]
			if dst = appendValue(dst, sl.typ, e.word, all.text(i)); sl.timed {
				dst = binary.AppendUvarint(dst, uint64(e.n))
				dst = binary.AppendUvarint(dst, binio.ZigZag(e.first))
				dst = binary.AppendUvarint(dst, binio.ZigZag(e.last))
			}
		}
		return dst
	case slotSketch:
		if st.n == 0 {
			return binio.AppendString(dst, "")
		}
		return binio.AppendString(dst, t.sketches[st.a].Text())
	case slotTop, slotBottom, slotSample:
		if st.n == 0 {
			return append(dst, 0)
		}
		p := &t.picks[st.a]
		p.prune(t.stop, sl)
		dst = binary.AppendUvarint(dst, uint64(len(p.rows)))
		for i := range p.rows {
			r := &p.rows[i]
			if sl.kind == slotSample {
				dst = binary.LittleEndian.AppendUint64(dst, r.rank)
			}
			dst = appendValue(dst, sl.typ, r.word, r.text())
			if dst = binary.AppendUvarint(dst, binio.ZigZag(r.t)); aux {
				dst = appendRow(dst, r.more.key, r.more.aux)
			}
		}
		return dst
	}
	if dst = append(dst, byte(st.n)); st.n == 0 {
		return dst
	}
	text := ""
	if sl.typ == model.String {
		text = t.strs[st.a]
	}
	if dst = appendValue(dst, sl.typ, st.a, text); sl.timed {
		dst = binary.AppendUvarint(dst, binio.ZigZag(st.t))
	}
	if aux {
		dst = appendRow(dst, t.auxKeys[st.b-1], t.aux[st.b-1])
	}
	return dst
}

func appendValue(dst []byte, t model.FieldType, word uint64, text string) []byte {
	switch t {
	case model.String:
		return binio.AppendString(dst, text)
	case model.Boolean:
		return append(dst, byte(word))
	}
	return binary.LittleEndian.AppendUint64(dst, word)
}

// appendRow appends the series key and the other columns of a chosen row.
func appendRow(dst []byte, key string, aux []expr.Scalar) []byte {
	dst = binio.AppendString(dst, key)
	for i := range aux {
		if dst = append(dst, byte(aux[i].Type)); aux[i].Type != model.Unknown {
			dst = appendValue(dst, aux[i].Type, aux[i].Bits, aux[i].Text)
		}
	}
	return dst
}

// decode merges the states of several stores, as encode made them for this plan,
// into the plan's table, and adds their groups. The table has only these states
// then. charge is asked for the memory.
func (p *aggPlan) decode(groups *read.GroupTable, dims int, desc bool, charge func(bytes int64) error, parts ...[]byte) error {
	bodies, met := make([]binio.Decoder, len(parts)), make([]int, len(parts))
	header := p.stateHeader(nil, dims)
	all := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for i, part := range parts {
		n := len(part) - 4
		switch {
		case n < 1 || binio.Checksum(part[:n]) != binary.LittleEndian.Uint32(part[n:]):
			return binio.Corruptf("", 0, "partial states: checksum")
		case part[0] != stateVersion:
			return fmt.Errorf("partial states have version %d, this server reads version %d", part[0], stateVersion)
		case !bytes.HasPrefix(part[:n], header):
			return fmt.Errorf("partial states belong to another statement")
		}
		d := &bodies[i]
		*d = binio.NewDecoder(part[:n])
		d.Bytes(len(header))
		if met[i] = d.Count(2 + dims + len(p.slots)); met[i] == 0 {
			continue
		}
		r := model.TimeRange{Min: d.Varint(), Max: d.Varint()}
		if r.Min > r.Max || r.Min < p.win.Start(p.rng.Min) || r.Max > p.win.Start(p.rng.Max) {
			d.Fail("times of the windows")
		}
		if err := d.Err(); err != nil {
			return err
		}
		all = all.Union(r)
	}
	p.starts = nil
	first, last, err := p.prepare(all)
	if err != nil {
		return err
	}
	if err := charge(8 * int64(len(p.starts))); err != nil {
		return err
	}
	p.table = nil
	for i := range bodies {
		t := newAggTable(len(p.slots), p.win.None(), first, last)
		t.desc = desc
		if err := p.decodeBody(&bodies[i], met[i], t, groups, dims, all, charge); err != nil {
			return err
		}
		if p.table == nil {
			p.table = t
		} else {
			p.table.merge(t, p.slots)
		}
	}
	return nil
}

// groupBytes is about what a group takes besides its texts.
const groupBytes = 160

// decodeBody reads the groups of one store into an empty table.
func (p *aggPlan) decodeBody(d *binio.Decoder, met int, t *aggTable, groups *read.GroupTable, dims int, r model.TimeRange, charge func(bytes int64) error) error {
	lastName, lastTuple := "", []string(nil)
	for k := range met {
		name, tuple := d.String(), make([]string, dims)
		for i := range tuple {
			tuple[i] = d.String()
		}
		if k > 0 && (name < lastName || name == lastName && slices.Compare(tuple, lastTuple) <= 0) {
			d.Fail("order of groups")
		}
		lastName, lastTuple = name, tuple
		n := d.Count(1 + len(p.slots))
		if d.Err() != nil {
			break
		}
		t.bytes += groupBytes + int64(len(name)) + 16*int64(dims)
		g := groups.ID(name, tuple)
		start := int64(0)
		for i := range n {
			before := start
			if i == 0 {
				start = d.Varint()
			} else if start += int64(d.Uvarint()); start <= before {
				d.Fail("order of windows")
			}
			if !r.Contains(start) || !p.win.None() && p.win.Start(start) != start {
				d.Fail("start of a window")
			}
			if d.Err() != nil {
				return d.Err()
			}
			st := t.at(g, p.number(start))
			for s := range p.slots {
				t.decodeState(d, &st[s], &p.slots[s], p.aux)
			}
			if t.bytes > 1<<16 || i == n-1 {
				if err := charge(t.bytes); err != nil {
					return err
				}
				t.bytes = 0
			}
		}
	}
	if d.Len() > 0 {
		d.Fail("bytes left over")
	}
	return d.Err()
}

// decodeState is the inverse of appendState.
func (t *aggTable) decodeState(d *binio.Decoder, st *aggState, sl *slot, aux int) {
	switch sl.kind {
	case slotCount:
		st.n = readCount(d)
	case slotSum, slotSquare:
		if st.n = readCount(d); st.n == 0 {
			return
		}
		st.a = d.Uint64()
		if sl.typ == model.Float {
			st.b = d.Uint64()
		}
	case slotTally:
		n := d.Count(1)
		for i := range n {
			all := t.tallyOf(st, sl)
			before := all.bytes()
			word, text := readValue(d, sl.typ)
			e := tallyEntry{n: 1}
			if sl.timed {
				e.n, e.first, e.last = readCount(d), d.Varint(), d.Varint()
			}
			all.add(word, text, e.n, e.first, e.last, func(s string) string { return s })
			if e.n == 0 || len(all.entries) != i+1 || i > 0 && all.compare(int32(i-1), int32(i)) >= 0 {
				d.Fail("values of a tally")
			}
			t.bytes += all.bytes() - before
			t.bytes += int64(len(text))
			if st.n += e.n; d.Err() != nil {
				return
			}
		}
	case slotSketch:
		text := d.String()
		if text == "" {
			return
		}
		s, err := hll.Parse(text)
		if err != nil {
			d.Fail("text of a sketch")
			return
		}
		st.n, st.a = 1, uint64(len(t.sketches))
		t.sketches = append(t.sketches, *s)
		t.bytes += 128 + s.Bytes()
	case slotTop, slotBottom, slotSample:
		n := d.Count(1)
		if n > sl.n {
			d.Fail("rows of a pick")
			return
		}
		for range n {
			p := t.pickOf(st)
			var r pickRow
			if sl.kind == slotSample {
				r.rank = d.Uint64()
			}
			word, text := readValue(d, sl.typ)
			if r.word, r.t = word, d.Varint(); sl.kind != slotSample {
				r.rank = sl.rank(word, 0, r.t)
			}
			t.bytes += 32
			if sl.typ == model.String || aux > 0 {
				r.more = &pickMore{text: text}
				t.bytes += 64 + int64(len(text))
			}
			if aux > 0 {
				r.more.key, r.more.aux = t.readRow(d, aux)
			}
			if d.Err() != nil {
				return
			}
			p.add(t.stop, sl, r)
			st.n++
		}
	default:
		n, word, text, at := d.Byte(), uint64(0), "", int64(0)
		if n == 0 {
			return
		}
		if word, text = readValue(d, sl.typ); sl.timed {
			at = d.Varint()
		}
		if n > tied {
			d.Fail("state of a selector")
		}
		t.put(st, *sl, at, word, text)
		if st.n = int64(n); aux > 0 {
			key, row := t.readRow(d, aux)
			t.putAux(st, row, key)
		}
	}
}

// readCount reads the number of values of a state.
func readCount(d *binio.Decoder) int64 {
	n := d.Uvarint()
	if n > 1<<62 {
		d.Fail("count of values")
		return 0
	}
	return int64(n)
}

// readValue reads a value. The text shares memory with nothing.
func readValue(d *binio.Decoder, t model.FieldType) (word uint64, text string) {
	switch t {
	case model.String:
		return 0, d.String()
	case model.Boolean:
		if word = uint64(d.Byte()); word > 1 {
			d.Fail("boolean")
		}
		return word, ""
	}
	return d.Uint64(), ""
}

// readRow reads the series key and the other columns of a chosen row.
func (t *aggTable) readRow(d *binio.Decoder, aux int) (key string, row []expr.Scalar) {
	key, row = d.String(), make([]expr.Scalar, aux)
	for i := range row {
		switch typ := model.FieldType(d.Byte()); typ {
		case model.Unknown:
		case model.Float, model.Integer, model.Unsigned, model.String, model.Boolean:
			row[i].Type = typ
			row[i].Bits, row[i].Text = readValue(d, typ)
		default:
			d.Fail("type of a column")
		}
	}
	t.bytes += 40*int64(aux) + auxText(row, key)
	return key, row
}
