package partial

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

// StateVersion is the first byte of encoded states.
const StateVersion = 2

// StateHeader appends what the states of a plan depend on. dims is the number of
// tag values of a group.
func (p *Plan) StateHeader(dst []byte, dims int) []byte {
	dst = append(dst, StateVersion)
	dst = binary.AppendUvarint(dst, uint64(dims))
	dst = binary.AppendUvarint(dst, uint64(p.Aux))
	dst = binary.AppendUvarint(dst, uint64(len(p.Slots)))
	for i := range p.Slots {
		s := &p.Slots[i]
		flags := byte(0)
		if s.Timed {
			flags |= 1
		}
		if s.Unique {
			flags |= 2
		}
		dst = append(dst, byte(s.Kind), byte(s.Type), flags)
		dst = binary.AppendUvarint(dst, uint64(s.N))
		dst = binary.AppendUvarint(dst, uint64(s.Tags))
		dst = binary.AppendUvarint(dst, s.Seed)
	}
	return dst
}

// Encode appends the states of the plan's table, which holds no rows of
// subqueries. dims is the number of tag values of a group.
func (p *Plan) Encode(dst []byte, groups *read.GroupTable, dims int) []byte {
	type window struct {
		start int64
		st    []State
	}
	begin := len(dst)
	dst = p.StateHeader(dst, dims)
	var body []byte
	first, last, met := int64(0), int64(0), 0
	for _, g := range groups.Order(true) {
		var windows []window
		p.Table.Group(g, func(number int64, st []State) {
			if slices.ContainsFunc(st, func(s State) bool { return s.N != 0 }) {
				windows = append(windows, window{p.StartOf(number), st})
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
			for k := range p.Slots {
				body = p.Table.appendState(body, &w.st[k], &p.Slots[k], p.Aux > 0)
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
func (t *Table) appendState(dst []byte, st *State, sl *Slot, aux bool) []byte {
	switch sl.Kind {
	case Count:
		return binary.AppendUvarint(dst, uint64(st.N))
	case Sum, Square:
		if dst = binary.AppendUvarint(dst, uint64(st.N)); st.N == 0 {
			return dst
		}
		dst = binary.LittleEndian.AppendUint64(dst, st.A)
		if sl.Type == model.Float {
			return binary.LittleEndian.AppendUint64(dst, st.B)
		}
		return binary.AppendUvarint(dst, binio.ZigZag(int64(st.B)))
	case Tally:
		if st.N == 0 {
			return append(dst, 0)
		}
		all := &t.Tallies[st.A]
		dst = binary.AppendUvarint(dst, uint64(len(all.Entries)))
		for _, i := range all.Order(t.Stop, all.Compare) {
			e := &all.Entries[i]
			if dst = appendValue(dst, sl.Type, e.word, all.text(i)); sl.Timed {
				dst = binary.AppendUvarint(dst, uint64(e.n))
				dst = binary.AppendUvarint(dst, binio.ZigZag(e.First))
				dst = binary.AppendUvarint(dst, binio.ZigZag(e.Last))
			}
		}
		return dst
	case Sketch:
		if st.N == 0 {
			return binio.AppendString(dst, "")
		}
		return binio.AppendString(dst, t.Sketches[st.A].Text())
	case Top, Bottom, Sample:
		if st.N == 0 {
			return append(dst, 0)
		}
		p := &t.Picks[st.A]
		p.Prune(t.Stop, sl)
		dst = binary.AppendUvarint(dst, uint64(len(p.Rows)))
		for i := range p.Rows {
			r := &p.Rows[i]
			if sl.Kind == Sample {
				dst = binary.LittleEndian.AppendUint64(dst, r.rank)
			}
			dst = appendValue(dst, sl.Type, r.Word, r.Text())
			if dst = binary.AppendUvarint(dst, binio.ZigZag(r.T)); aux {
				dst = appendRow(dst, r.More.key, r.More.Aux)
			}
		}
		return dst
	}
	if dst = append(dst, byte(st.N)); st.N == 0 {
		return dst
	}
	text := ""
	if sl.Type == model.String {
		text = t.Texts[st.A]
	}
	if dst = appendValue(dst, sl.Type, st.A, text); sl.Timed {
		dst = binary.AppendUvarint(dst, binio.ZigZag(st.T))
	}
	if aux {
		dst = appendRow(dst, t.auxKeys[st.B-1], t.Aux[st.B-1])
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

// Decode merges the states of several stores, as encode made them for this plan,
// into the plan's table, and adds their groups. The table has only these states
// then. charge is asked for the memory.
func (p *Plan) Decode(groups *read.GroupTable, dims int, desc bool, charge func(bytes int64) error, parts ...[]byte) error {
	bodies, met := make([]binio.Decoder, len(parts)), make([]int, len(parts))
	header := p.StateHeader(nil, dims)
	all := model.TimeRange{Min: model.MaxTime, Max: model.MinTime}
	for i, part := range parts {
		n := len(part) - 4
		switch {
		case n < 1 || binio.Checksum(part[:n]) != binary.LittleEndian.Uint32(part[n:]):
			return binio.Corruptf("", 0, "partial states: checksum")
		case part[0] != StateVersion:
			return fmt.Errorf("partial states have version %d, this server reads version %d", part[0], StateVersion)
		case !bytes.HasPrefix(part[:n], header):
			return fmt.Errorf("partial states belong to another statement")
		}
		d := &bodies[i]
		*d = binio.NewDecoder(part[:n])
		d.Bytes(len(header))
		if met[i] = d.Count(2 + dims + len(p.Slots)); met[i] == 0 {
			continue
		}
		r := model.TimeRange{Min: d.Varint(), Max: d.Varint()}
		if r.Min > r.Max || r.Min < p.Windows.Start(p.Range.Min) || r.Max > p.Windows.Start(p.Range.Max) {
			d.Fail("times of the windows")
		}
		if err := d.Err(); err != nil {
			return err
		}
		all = all.Union(r)
	}
	first, last, err := p.Prepare(all)
	if err != nil {
		return err
	}
	if err := charge(p.Bytes()); err != nil {
		return err
	}
	p.Table = nil
	for i := range bodies {
		t := NewTable(len(p.Slots), p.Windows.None(), first, last)
		t.Desc = desc
		if err := p.decodeBody(&bodies[i], met[i], t, groups, dims, all, charge); err != nil {
			return err
		}
		if p.Table == nil {
			p.Table = t
			continue
		}
		p.Table.Merge(t, p.Slots)
		if err := charge(p.Table.Bytes); err != nil {
			return err
		}
		p.Table.Bytes = 0
	}
	return nil
}

// groupBytes is about what a group takes besides its texts.
const groupBytes = 160

// decodeBody reads the groups of one store into an empty table.
func (p *Plan) decodeBody(d *binio.Decoder, met int, t *Table, groups *read.GroupTable, dims int, r model.TimeRange, charge func(bytes int64) error) error {
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
		n := d.Count(1 + len(p.Slots))
		if d.Err() != nil {
			break
		}
		t.Bytes += groupBytes + int64(len(name)) + 16*int64(dims)
		g := groups.ID(name, tuple)
		start := int64(0)
		for i := range n {
			before := start
			if i == 0 {
				start = d.Varint()
			} else if start += int64(d.Uvarint()); start <= before {
				d.Fail("order of windows")
			}
			if !r.Contains(start) || !p.Windows.None() && p.Windows.Start(start) != start {
				d.Fail("start of a window")
			}
			if d.Err() != nil {
				return d.Err()
			}
			st := t.At(g, p.number(start))
			for s := range p.Slots {
				t.decodeState(d, &st[s], &p.Slots[s], p.Aux)
			}
			if t.Bytes > 1<<16 || i == n-1 {
				if err := charge(t.Bytes); err != nil {
					return err
				}
				t.Bytes = 0
			}
		}
	}
	if d.Len() > 0 {
		d.Fail("bytes left over")
	}
	return d.Err()
}

// decodeState is the inverse of appendState.
func (t *Table) decodeState(d *binio.Decoder, st *State, sl *Slot, aux int) {
	switch sl.Kind {
	case Count:
		st.N = readCount(d)
	case Sum, Square:
		if st.N = readCount(d); st.N == 0 {
			return
		}
		st.A = d.Uint64()
		if sl.Type == model.Float {
			st.B = d.Uint64()
		} else {
			st.B = uint64(d.Varint())
		}
	case Tally:
		n := d.Count(1)
		for i := range n {
			all := t.tallyOf(st, sl)
			before := all.bytes()
			word, text := readValue(d, sl.Type)
			e := tallyEntry{n: 1}
			if sl.Timed {
				e.n, e.First, e.Last = readCount(d), d.Varint(), d.Varint()
			}
			all.add(word, text, e.n, e.First, e.Last, func(s string) string { return s })
			if e.n == 0 || len(all.Entries) != i+1 || i > 0 && all.Compare(int32(i-1), int32(i)) >= 0 {
				d.Fail("values of a tally")
			}
			t.Bytes += all.bytes() - before
			t.Bytes += int64(len(text))
			if st.N += e.n; d.Err() != nil {
				return
			}
		}
	case Sketch:
		text := d.String()
		if text == "" {
			return
		}
		s, err := hll.Parse(text)
		if err != nil {
			d.Fail("text of a sketch")
			return
		}
		st.N, st.A = 1, uint64(len(t.Sketches))
		t.Sketches = append(t.Sketches, *s)
		t.Bytes += 128 + s.Bytes()
	case Top, Bottom, Sample:
		n := d.Count(1)
		if n > sl.N {
			d.Fail("rows of a pick")
			return
		}
		for range n {
			p := t.pickOf(st)
			before := p.bytes()
			var r PickRow
			if sl.Kind == Sample {
				r.rank = d.Uint64()
			}
			word, text := readValue(d, sl.Type)
			if r.Word, r.T = word, d.Varint(); sl.Kind != Sample {
				r.rank = sl.rank(word, 0, r.T)
			}
			if sl.Type == model.String || aux > 0 {
				r.More = &pickMore{text: text}
			}
			if aux > 0 {
				r.More.key, r.More.Aux = readRow(d, aux)
			}
			if d.Err() != nil {
				return
			}
			p.add(t.Stop, sl, r)
			t.Bytes += p.bytes() - before
			st.N++
		}
	default:
		n, word, text, at := d.Byte(), uint64(0), "", int64(0)
		if n == 0 {
			return
		}
		if word, text = readValue(d, sl.Type); sl.Timed {
			at = d.Varint()
		}
		if n > Tied {
			d.Fail("state of a selector")
		}
		t.put(st, sl, at, word, text)
		if st.N = int64(n); aux > 0 {
			key, row := readRow(d, aux)
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
func readRow(d *binio.Decoder, aux int) (key string, row []expr.Scalar) {
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
	return key, row
}
