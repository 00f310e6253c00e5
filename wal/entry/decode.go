package entry

import (
	"encoding/binary"
	"fmt"
	"math/bits"
	"slices"

	"github.com/golang/snappy"

	"tsdbd/internal/binio"
	"tsdbd/model"
	"tsdbd/model/column"
	"tsdbd/model/point"
)

// Decoder turns payloads back into entries. Until Reset, a series has one
// *point.Series and a layout one *point.Layout in all entries. The entry it
// returns is valid until the next call.
type Decoder struct {
	entry   Entry
	rows    []point.Row
	values  []uint64
	layouts []*plan // of the entry at hand, by number
	interns map[string]*plan
	dbs     map[uint32]*seriesTable
	raw     []byte // uncompressed definitions
	resolve func(database, id uint32) (key string, ok bool)
	era     uint32 // counts the calls of Forget
	bytes   int64  // see Bytes
}

// What a series and a layout take besides their keys, about.
const (
	seriesBytes = 160
	layoutBytes = 512
)

// NewDecoder returns a decoder that no series is defined to. It asks resolve for
// the keys of series that entries name without a definition; nil knows none.
func NewDecoder(resolve func(database, id uint32) (key string, ok bool)) *Decoder {
	return &Decoder{interns: make(map[string]*plan), dbs: make(map[uint32]*seriesTable), resolve: resolve}
}

// Forget ends the validity of all definitions. A segment of a log defines what it
// uses: where its own definition is lost, that of an older one must not take its
// place, for the id may have had another key then.
func (c *Decoder) Forget() { c.era++ }

// Bytes returns about how much memory the series and layouts take that the decoder
// knows.
func (c *Decoder) Bytes() int64 { return c.bytes }

// Reset makes the decoder forget all series and layouts, and gives their memory
// back. What entries name without a definition, it asks its owner from here on.
func (c *Decoder) Reset() { *c = *NewDecoder(c.resolve) }

// seriesTable maps the ids of one database to series. Ids are dense as a rule;
// the slice stays within a small multiple of the number of series, whatever the
// ids are, and the others go to the map.
type seriesTable struct {
	dense  []definedSeries
	sparse map[uint32]definedSeries
	count  int
}

// definedSeries is a series with the era in which it was defined last.
type definedSeries struct {
	*point.Series
	era uint32
}

func (t *seriesTable) get(id uint32) definedSeries {
	if uint(id) < uint(len(t.dense)) {
		if s := t.dense[id]; s.Series != nil {
			return s
		}
	}
	return t.sparse[id]
}

func (t *seriesTable) put(id uint32, s definedSeries) {
	if t.get(id).Series == nil {
		t.count++
	}
	delete(t.sparse, id)
	if uint(id) >= uint(len(t.dense)) && uint64(id) < uint64(4*t.count+1024) {
		t.dense = append(t.dense, make([]definedSeries, max(int(id)+1, 2*t.count)-len(t.dense))...)
	}
	if uint(id) < uint(len(t.dense)) {
		t.dense[id] = s
		return
	}
	if t.sparse == nil {
		t.sparse = make(map[uint32]definedSeries)
	}
	t.sparse[id] = s
}

// Define reads a block of series definitions. On an error the definitions
// before it stay.
func (c *Decoder) Define(payload []byte, packed bool) error {
	if packed {
		n, err := snappy.DecodedLen(payload)
		if err != nil || n > maxDefinitions {
			return binio.Corruptf("", -1, "series definitions do not uncompress")
		}
		if cap(c.raw) < n {
			c.raw = make([]byte, n)
		}
		if payload, err = snappy.Decode(c.raw[:n], payload); err != nil {
			return binio.Corruptf("", -1, "series definitions do not uncompress")
		}
	}
	d := binio.NewDecoder(payload)
	for d.Len() > 0 {
		db, id, key := d.Uvarint(), d.Uvarint(), d.Bytes(d.Count(1))
		if err := d.Err(); err != nil {
			return err
		}
		if db > 1<<32-1 || id == 0 || id > 1<<32-1 || len(key) > model.MaxKeyLength {
			return binio.Corruptf("", -1, "series definition out of range")
		}
		c.put(uint32(db), uint32(id), string(key))
	}
	return nil
}

// put defines a series. A definition is made again in every segment. Should one
// give the id another key, the newer holds for what follows: a series of an entry
// that never became durable may have left its id to another.
func (c *Decoder) put(database, id uint32, key string) *point.Series {
	t := c.table(database)
	s := t.get(id).Series
	if s == nil || s.Key() != key {
		s = point.NewSeries(key)
		s.SetID(model.SeriesID(id))
		c.bytes += seriesBytes + int64(len(key))
	}
	t.put(id, definedSeries{s, c.era})
	return s
}

// table returns the table of a database.
func (c *Decoder) table(database uint32) *seriesTable {
	t := c.dbs[database]
	if t == nil {
		t = new(seriesTable)
		c.dbs[database] = t
	}
	return t
}

// series returns a series that is defined, or that resolve knows, else nil.
func (c *Decoder) series(t *seriesTable, database, id uint32) *point.Series {
	if s := t.get(id); s.Series != nil && s.era == c.era {
		return s.Series
	}
	if c.resolve == nil {
		return nil
	}
	key, ok := c.resolve(database, id)
	if !ok {
		return nil
	}
	return c.put(database, id, key)
}

// Decode reads the payload of an entry. What the entry has, shares its memory.
func (c *Decoder) Decode(kind Kind, sequence uint64, payload []byte) (*Entry, error) {
	e := &c.entry
	clear(e.Writes)
	*e = Entry{Sequence: sequence, Writes: e.Writes[:0], Deletes: e.Deletes[:0]}
	d := binio.NewDecoder(payload)
	switch kind {
	case KindCommand:
		if e.Command = d.Bytes(d.Len()); len(payload) == 0 {
			d.Fail("command without content")
		}
	case KindMove:
		e.Move = decodeMove(&d)
	case KindExemplars:
		e.Exemplars = &Exemplars{Database: database(&d), List: d.Bytes(d.Len())}
	case KindPoints:
		if err := c.points(&d, payload); err != nil {
			return nil, err
		}
	default:
		d.Fail(fmt.Sprintf("entry of kind %d", kind))
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("bytes after the entry")
	}
	if err := d.Err(); err != nil {
		return nil, err
	}
	return e, nil
}

// database reads the number of a database.
func database(d *binio.Decoder) uint32 {
	id := d.Uvarint()
	if id > 1<<32-1 {
		d.Fail("database out of range")
	}
	return uint32(id)
}

func decodeMove(d *binio.Decoder) *Move {
	m := &Move{Database: database(d)}
	for range d.Count(2) {
		x := MoveChange{Change: d.Bytes(d.Count(1))}
		for range d.Count(2) {
			x.Shards = append(x.Shards, MovedShard{Shard: d.Uvarint(), Series: d.Bytes(d.Count(1))})
		}
		m.Changes = append(m.Changes, x)
	}
	return m
}

// points reads writes and deletes into the entry.
func (c *Decoder) points(d *binio.Decoder, payload []byte) error {
	e := &c.entry
	clear(c.rows)
	c.rows, c.values, c.layouts = c.rows[:0], c.values[:0], c.layouts[:0]
	for n := d.Count(3); n > 0; n-- {
		if err := c.write(d, payload); err != nil {
			return err
		}
	}
	// Rows and values grew while they were read: cut the writes' shares now.
	rest := c.rows
	for i := range e.Writes {
		w := &e.Writes[i]
		n := len(w.Rows)
		w.Rows, rest = rest[:n:n], rest[n:]
		w.Values, w.Strings = c.values, payload
	}
	for n := d.Count(5); n > 0 && d.Err() == nil; n-- {
		e.Deletes = append(e.Deletes, Delete{
			Database: database(d), Shard: d.Uvarint(),
			Range: model.TimeRange{Min: d.Varint(), Max: d.Varint()}, Series: d.Bytes(d.Count(1)),
		})
	}
	return d.Err()
}

// write reads one write. The Rows it leaves in the entry only tell how many
// there are.
func (c *Decoder) write(d *binio.Decoder, payload []byte) error {
	db, shard := database(d), d.Uvarint()
	count := d.Count(2)
	if err := d.Err(); err != nil {
		return err
	}
	table := c.table(db)
	var (
		layout         *plan
		series         *point.Series
		id             int64
		idStep         int64 = 1
		time, timeStep int64
		start          = len(c.rows)
	)
	for range count {
		control := d.Byte()
		if control&^controlKnown != 0 {
			return corruptAt(d, "unknown row control")
		}
		if control&controlLayout != 0 {
			n := d.Uvarint()
			switch {
			case n < uint64(len(c.layouts)):
				layout = c.layouts[n]
			case n == uint64(len(c.layouts)) && d.Err() == nil:
				layout = c.layout(d, payload)
			default:
				return corruptAt(d, "layout number out of range")
			}
		}
		switch control & 3 {
		case stepSame:
		case stepExplicit:
			idStep = d.Varint()
			fallthrough
		case stepLast:
			id += idStep
			series = nil
		default:
			return corruptAt(d, "unknown row control")
		}
		switch control >> controlTimeShift & 3 {
		case stepSame:
		case stepExplicit:
			timeStep = d.Varint()
			fallthrough
		case stepLast:
			time += timeStep
		default:
			return corruptAt(d, "unknown row control")
		}
		if err := d.Err(); err != nil {
			return err
		}
		if layout == nil {
			return corruptAt(d, "row without layout")
		}
		if series == nil {
			if id <= 0 || id > 1<<32-1 {
				return corruptAt(d, "series id out of range")
			}
			if series = c.series(table, db, uint32(id)); series == nil {
				return corruptAt(d, fmt.Sprintf("series %d of database %d is not defined", id, db))
			}
		}
		first := len(c.values)
		if uint64(first) > 1<<32-1 {
			return corruptAt(d, "too many values")
		}
		c.row(d, layout, payload)
		if err := d.Err(); err != nil {
			return err
		}
		c.rows = append(c.rows, point.Row{Series: series, Layout: layout.layout, Time: time, First: uint32(first)})
	}
	c.entry.Writes = append(c.entry.Writes, Write{Database: db, Shard: shard, Rows: c.rows[start:]})
	return nil
}

func corruptAt(d *binio.Decoder, reason string) error {
	d.Fail(reason)
	return d.Err()
}

// layout reads a layout's definition and interns it.
func (c *Decoder) layout(d *binio.Decoder, payload []byte) *plan {
	from := d.Offset()
	d.Bytes(d.Count(1))
	n := d.Count(2)
	if n == 0 {
		d.Fail("layout without fields")
	}
	for range n {
		if t := model.FieldType(d.Byte()); !t.Valid() {
			d.Fail("unknown field type")
			return nil
		}
		d.Bytes(d.Count(1))
	}
	if d.Err() != nil {
		return nil
	}
	definition := payload[from:d.Offset()]
	p := c.interns[string(definition)]
	if p == nil {
		again := binio.NewDecoder(definition)
		l := &point.Layout{Measurement: again.String()}
		l.Fields = make([]column.Field, again.Count(2))
		p = &plan{layout: l, types: make([]model.FieldType, len(l.Fields))}
		for i := range l.Fields {
			p.types[i] = model.FieldType(again.Byte())
			l.Fields[i] = column.Field{Key: again.String(), Type: p.types[i]}
			if i == 0 {
				p.only = p.types[0]
			} else if p.types[i] != p.only {
				p.only = model.Unknown
			}
		}
		c.interns[string(definition)] = p
		c.bytes += layoutBytes + 8*int64(len(definition))
	}
	c.layouts = append(c.layouts, p)
	return p
}

// row reads the lengths and values of one row into c.values.
func (c *Decoder) row(d *binio.Decoder, p *plan, payload []byte) {
	n := len(p.types)
	lengths := d.Bytes((n + 1) / 2)
	if lengths == nil {
		return
	}
	if n&1 != 0 && lengths[len(lengths)-1]>>4 != 0 {
		d.Fail("bits after the last length")
		return
	}
	at := len(c.values)
	c.values = slices.Grow(c.values, n)[:at+n]
	off := d.Offset()
	var used int
	var reason string
	switch p.only {
	case model.Integer:
		if used, reason = readWords(c.values[at:], lengths, payload[off:]); reason == "" {
			for i, v := range c.values[at:] {
				c.values[at+i] = v>>1 ^ -(v & 1)
			}
		}
	case model.Float:
		if used, reason = readWords(c.values[at:], lengths, payload[off:]); reason == "" {
			for i, v := range c.values[at:] {
				c.values[at+i] = bits.ReverseBytes64(v)
			}
		}
	default:
		used, reason = readMixed(c.values[at:], p.types, lengths, payload, off)
	}
	if reason != "" {
		d.Fail(reason)
		return
	}
	d.Bytes(used)
}

const valueExceeds = "value exceeds the entry"

// wordMasks keeps the low n bytes of a word.
var wordMasks = [16]uint64{
	0, 1<<8 - 1, 1<<16 - 1, 1<<24 - 1, 1<<32 - 1, 1<<40 - 1, 1<<48 - 1, 1<<56 - 1,
	1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1, 1<<64 - 1,
}

// readWords reads len(dst) words whose byte counts stand in lengths. It returns
// how many bytes of b they take, or why they cannot be read.
func readWords(dst []uint64, lengths, b []byte) (used int, reason string) {
	p, n, bad := 0, len(dst), byte(0)
	i := 0
	for ; i+1 < n && len(b)-p >= 32; i += 2 {
		both := lengths[i>>1]
		lu, lv := both&15, both>>4
		bad |= (lu + 7) | (lv + 7) // bit 4: a length above 8
		dst[i] = binary.LittleEndian.Uint64(b[p:]) & wordMasks[lu&15]
		p += int(lu)
		dst[i+1] = binary.LittleEndian.Uint64(b[p:]) & wordMasks[lv&15]
		p += int(lv)
	}
	for ; i < n; i++ {
		l := lengths[i>>1] >> (4 * (i & 1)) & 15
		bad |= l + 7
		v, ok := readWord(b, p, int(l))
		if !ok {
			return 0, valueExceeds
		}
		dst[i] = v
		p += int(l)
	}
	if bad&16 != 0 {
		return 0, valueExceeds
	}
	return p, ""
}

// readWord reads the l bytes at p of b.
func readWord(b []byte, p, l int) (v uint64, ok bool) {
	if l > 8 || l > len(b)-p {
		return 0, false
	}
	if len(b)-p >= 8 {
		return binary.LittleEndian.Uint64(b[p:]) & wordMasks[l&15], true
	}
	for j := l - 1; j >= 0; j-- {
		v = v<<8 | uint64(b[p+j])
	}
	return v, true
}

// readMixed is readWords for fields of any types, from offset p of payload.
func readMixed(dst []uint64, types []model.FieldType, lengths, payload []byte, p int) (used int, reason string) {
	from := p
	for i, t := range types {
		l := int(lengths[i>>1]>>(4*(i&1))) & 15
		if t == model.Boolean {
			if l > 1 {
				return 0, "boolean out of range"
			}
			dst[i] = uint64(l)
			continue
		}
		v, ok := readWord(payload, p, l)
		if !ok {
			return 0, valueExceeds
		}
		p += l
		switch t {
		case model.Integer:
			v = uint64(binio.UnZigZag(v))
		case model.Float:
			v = bits.ReverseBytes64(v)
		case model.String:
			if v > column.MaxStringLength || v > uint64(len(payload)-p) {
				return 0, "string exceeds the entry"
			}
			at := p
			p += int(v)
			v = column.StringWord(at, int(v))
		}
		dst[i] = v
	}
	return p - from, ""
}
