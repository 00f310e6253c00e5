package dictionary

import (
	"bytes"
	"encoding/binary"
	"math/bits"
	"slices"

	"github.com/RoaringBitmap/roaring/v2"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// A posting is the set of series ids of one tag value. In a page it follows its
// value:
//
//	single    uvarint zigzag(id - previous)<<2 | 0
//	list      uvarint n<<2 | 1, uvarint length, ids
//	roaring   uvarint length<<2 | 2, bytes
//	elsewhere uvarint (length<<1 | roaring)<<2 | 3, uvarint offset; there are
//	          the bytes (a list has its count in front, and previous is 0) and
//	          a crc, length in all
//
// The ids of a list are zigzag(first - previous), then the gaps, as varints.
// previous is the last single's id or last list's first id before it, since
// the restart; at a restart it is the page's base.
const (
	postingSingle = iota
	postingList
	postingRoaring
	postingElsewhere
)

// postingInline is the largest posting in bytes that a page holds: larger
// ones would make a walk over the values touch what it does not read.
const postingInline = 512

// Posting is a set of ids as a file holds it, not unpacked.
type Posting struct {
	kind     uint8
	bitmap   bool   // elsewhere: a bitmap, else a list
	id       uint32 // single
	n        int    // list: ids
	previous uint32 // list
	data     []byte // list, roaring
	source   Source // elsewhere
	offset   int64
	size     int64 // with the crc
}

// appendIDList appends the ids, ascending, as a list.
func appendIDList(dst []byte, previous uint32, ids []uint32) []byte {
	dst = binary.AppendUvarint(dst, binio.ZigZag(int64(ids[0])-int64(previous)))
	for i := 1; i < len(ids); i++ {
		dst = binary.AppendUvarint(dst, uint64(ids[i]-ids[i-1]))
	}
	return dst
}

// readIDList appends n ids of a list to dst. The ids are ascending and not 0.
func readIDList(dst []uint32, b []byte, n int, previous uint32) ([]uint32, error) {
	d := binio.NewDecoder(b)
	if n > len(b) {
		d.Fail("id list too short")
	}
	id := uint64(int64(previous) + d.Varint())
	for i := 0; i < n && d.Err() == nil; i++ {
		if i > 0 {
			gap := d.Uvarint()
			if id += gap; gap == 0 || gap > model.MaxSeriesID {
				d.Fail("bad gap in id list")
				break
			}
		}
		if id == 0 || id > model.MaxSeriesID {
			d.Fail("bad id in id list")
			break
		}
		dst = append(dst, uint32(id))
	}
	if d.Err() == nil && d.Len() > 0 {
		d.Fail("id list too long")
	}
	return dst, d.Err()
}

// readRoaring unpacks a serialised bitmap into memory of its own.
func readRoaring(b []byte) (bm *roaring.Bitmap, err error) {
	defer func() { // the library trusts its input in places
		if recover() != nil {
			bm, err = nil, &binio.CorruptError{Offset: -1, Reason: "bad bitmap"}
		}
	}()
	if !validRoaring(b) {
		return nil, &binio.CorruptError{Offset: -1, Reason: "bad bitmap"}
	}
	bm = roaring.New()
	n, err := bm.ReadFrom(bytes.NewReader(b))
	if err != nil || n != int64(len(b)) || bm.IsEmpty() || bm.Contains(0) {
		return nil, &binio.CorruptError{Offset: -1, Reason: "bad bitmap"}
	}
	return bm, nil
}

// IDs appends the posting's ids, ascending.
func (p *Posting) IDs(dst []uint32) ([]uint32, error) {
	dst, bm, err := p.Unpack(dst)
	if bm != nil {
		dst = AppendIDs(dst, bm)
	}
	return dst, err
}

// Single returns the id of a set of one that is not packed.
func (p *Posting) Single() (id uint32, ok bool) { return p.id, p.kind == postingSingle }

// Len returns how many ids a list has, 0 for other kinds.
func (p *Posting) Len() int { return p.n }

// Count returns the number of the posting's ids.
func (p *Posting) Count() (int, error) {
	switch p.kind {
	case postingSingle:
		return 1, nil
	case postingList:
		return p.n, nil
	}
	ids, bm, err := p.Unpack(nil)
	if bm != nil {
		return int(bm.GetCardinality()), err
	}
	return len(ids), err
}

// Unpack appends the posting's ids, or returns them as a bitmap of its own.
func (p *Posting) Unpack(dst []uint32) ([]uint32, *roaring.Bitmap, error) {
	data := p.data
	switch p.kind {
	case postingSingle:
		return append(dst, p.id), nil, nil
	case postingList:
		dst, err := readIDList(dst, data, p.n, p.previous)
		return dst, nil, err
	case postingElsewhere:
		var err error
		if data, err = p.source.Checked(p.offset, p.size); err != nil {
			return dst, nil, err
		}
		if !p.bitmap {
			n, k := binary.Uvarint(data)
			if k <= 0 || n == 0 || n > uint64(len(data)) {
				return dst, nil, binio.Corruptf(p.source.Path(), p.offset, "bad id list")
			}
			dst, err = readIDList(dst, data[k:], int(n), 0)
			return dst, nil, err
		}
	}
	bm, err := readRoaring(data)
	return dst, bm, err
}

// AppendIDs appends the ids of a set, ascending.
func AppendIDs(dst []uint32, bm *roaring.Bitmap) []uint32 {
	n := int(bm.GetCardinality())
	start := len(dst)
	dst = slices.Grow(dst, n)[:start+n]
	it := bm.ManyIterator()
	for got := start; got < len(dst); {
		k := it.NextMany(dst[got:])
		if k == 0 {
			return dst[:got]
		}
		got += k
	}
	return dst
}

// setEncoder turns ids into the smaller of a list and a bitmap.
type setEncoder struct {
	list []byte
	buf  bytes.Buffer
}

// encode returns the bytes of ids, at least one, ascending, and their kind:
// postingList or postingRoaring. They are valid until the next call.
func (e *setEncoder) encode(previous uint32, ids []uint32) (kind uint8, data []byte) {
	e.list = appendIDList(e.list[:0], previous, ids)
	span := int64(ids[len(ids)-1]-ids[0]) + 1
	if len(ids) <= 4 || len(ids) <= 256 && span > 8*int64(len(ids)) {
		return postingList, e.list
	}
	bm := roaring.New()
	bm.AddMany(ids)
	bm.RunOptimize()
	size := int(bm.GetSerializedSizeInBytes())
	// Long lists unpack slowly: there a bitmap may cost twice as much.
	if size > len(e.list) && (len(ids) <= 4096 || size > 2*len(e.list)) {
		return postingList, e.list
	}
	e.buf.Reset()
	_, _ = bm.WriteTo(&e.buf) // to memory: cannot fail
	return postingRoaring, e.buf.Bytes()
}

// Sets outside pages: a kind byte (setEmpty, setList, setRoaring, setAll), and
// for the middle two a uvarint length and the bytes; a list has its count
// first.
const (
	setEmpty   = 0
	setList    = 1
	setRoaring = 2
	setAll     = 3 // the set of the enclosing measurement
)

func (e *setEncoder) appendSet(dst []byte, bm *roaring.Bitmap) []byte {
	if bm.IsEmpty() {
		return append(dst, setEmpty)
	}
	ids := AppendIDs(nil, bm)
	kind, data := e.encode(0, ids)
	if kind == postingList {
		dst = append(dst, setList)
		dst = binary.AppendUvarint(dst, uint64(len(ids)))
	} else {
		dst = append(dst, setRoaring)
	}
	dst = binary.AppendUvarint(dst, uint64(len(data)))
	return append(dst, data...)
}

// ReadSet reads what Writer.AppendSet wrote. all is the set that setAll means; it may
// be nil.
func ReadSet(d *binio.Decoder, all *roaring.Bitmap) *roaring.Bitmap {
	switch d.Byte() {
	case setEmpty:
		return roaring.New()
	case setList:
		n := d.Count(1)
		ids, err := readIDList(nil, d.Bytes(d.Count(1)), n, 0)
		if err != nil {
			d.Fail("bad id list")
			return nil
		}
		bm := roaring.New()
		bm.AddMany(ids)
		return bm
	case setRoaring:
		bm, err := readRoaring(d.Bytes(d.Count(1)))
		if err != nil {
			d.Fail("bad bitmap")
			return nil
		}
		return bm
	case setAll:
		if all != nil {
			return all
		}
	}
	d.Fail("bad set kind")
	return nil
}

// A Collector gathers ids in any order, with repetitions, into a set.
type Collector struct {
	few     []uint32
	chunks  []*[1024]uint64 // by id>>16, once few has overflowed
	large   *roaring.Bitmap // nil, or further ids
	scratch []uint32
}

const collectorFew = 4096

// Add adds an id.
func (c *Collector) Add(id uint32) {
	if c.chunks == nil {
		c.few = append(c.few, id)
		if len(c.few) == collectorFew {
			c.spill()
		}
		return
	}
	hi := int(id >> 16)
	if hi >= len(c.chunks) {
		c.chunks = append(c.chunks, make([]*[1024]uint64, hi+1-len(c.chunks))...)
	}
	if c.chunks[hi] == nil {
		c.chunks[hi] = new([1024]uint64)
	}
	c.chunks[hi][id>>6&1023] |= 1 << (id & 63)
}

func (c *Collector) spill() {
	c.chunks = make([]*[1024]uint64, 1)
	for _, id := range c.few {
		c.Add(id)
	}
	c.few = c.few[:0]
}

// largeBitmap is the number of ids from which uniting bitmaps beats adding
// their ids one by one.
const largeBitmap = 1 << 14

// AddPosting adds the ids of a posting.
func (c *Collector) AddPosting(p *Posting) error {
	if p.kind == postingSingle {
		c.Add(p.id)
		return nil
	}
	ids, bm, err := p.Unpack(c.scratch[:0])
	if err != nil {
		return err
	}
	if bm != nil {
		switch {
		case c.large == nil && len(c.few) == 0 && c.chunks == nil:
			c.large = bm // often the only one
		case bm.GetCardinality() < largeBitmap:
			ids = AppendIDs(ids, bm)
		case c.large == nil:
			c.large = bm
		default:
			c.large.Or(bm)
		}
	}
	for _, id := range ids {
		c.Add(id)
	}
	c.scratch = ids
	return nil
}

// Within returns the part of the set that is in another one. The collector must not be used
// after it.
func (c *Collector) Within(in *roaring.Bitmap) *roaring.Bitmap {
	if c.chunks == nil && c.large == nil { // filtered, they need no second bitmap
		c.few = slices.DeleteFunc(c.few, func(id uint32) bool { return !in.Contains(id) })
		return c.Set()
	}
	set := c.Set()
	set.And(in)
	return set
}

// Set returns the set. The collector must not be used after it.
func (c *Collector) Set() *roaring.Bitmap {
	bm := c.large
	if bm == nil {
		bm = roaring.New()
	}
	if c.chunks == nil {
		slices.Sort(c.few)
		bm.AddMany(c.few)
		return bm
	}
	small := bm
	if c.large != nil {
		small = roaring.New()
	}
	const piece = 4096
	buf := make([]uint32, 0, piece)
	for hi, chunk := range c.chunks {
		if chunk == nil {
			continue
		}
		for w, word := range chunk {
			if len(buf) > piece-64 {
				small.AddMany(buf)
				buf = buf[:0]
			}
			for ; word != 0; word &= word - 1 {
				buf = append(buf, uint32(hi)<<16|uint32(w)<<6|uint32(bits.TrailingZeros64(word)))
			}
		}
		small.AddMany(buf)
		buf = buf[:0]
	}
	if c.large != nil {
		bm.Or(small)
	}
	return bm
}
