package point

import (
	"encoding/binary"
	"hash/maphash"

	"tsdbd/internal/binio"
	"tsdbd/model"
)

// Fingerprint stands for the bytes in which a sender spells the labels of a series: a hash of
// 128 bits with seeds that no client knows, so that nobody can make two series meet in it.
// It is valid for one Table.
type Fingerprint [16]byte

// Fingerprint returns the fingerprint of bytes.
func (t *Table) Fingerprint(b []byte) (f Fingerprint) {
	binary.LittleEndian.PutUint64(f[:8], maphash.Bytes(t.seed, b))
	binary.LittleEndian.PutUint64(f[8:], maphash.Bytes(t.second, b))
	return f
}

// slot is the hash of a fingerprint among the entries.
func (f *Fingerprint) slot() uint32 { return binary.LittleEndian.Uint32(f[4:]) }

// Fingerprint is Table.Fingerprint for the builder's table.
func (b *Builder) Fingerprint(text []byte) Fingerprint { return b.table.Fingerprint(text) }

// FingerprintOf returns the fingerprint of a measurement with tags in their order.
func (b *Builder) FingerprintOf(measurement string, tags model.Tags) Fingerprint {
	b.text = binio.AppendString(b.text[:0], measurement)
	for _, t := range tags {
		b.text = binio.AppendString(binio.AppendString(b.text, t.Key), t.Value)
	}
	return b.table.Fingerprint(b.text)
}

// Known is Series for a series that Spell has remembered: it takes neither measurement nor
// tags. It reports whether the series is known. Senders repeat their series in
// the same order, so the entry behind the latest one is tried first.
func (b *Builder) Known(f Fingerprint) bool {
	v, n := b.known.view, b.known.next
	if v == nil {
		v = b.table.View()
	}
	e := v.Entry(n)
	if e == nil || !v.spells(e, &f) {
		if n, v = b.table.find(f.slot(), f[:], isPrint); n == 0 {
			b.known.next = 0
			return false
		}
		e = v.Entry(n)
		v.use(e)
		b.follow(n)
	}
	l := v.Layout(e)
	if l == nil {
		v = b.table.View()
		l = v.Layout(e)
	}
	b.known.view, b.known.entry, b.known.next, b.known.here = v, e, e.Next(), l != nil
	if l == nil {
		return false
	}
	b.series, b.number, b.layout, b.measurement, b.refused = v.Series(e), 0, l, l.Measurement, nil
	b.key, b.keyLength = b.key[:0], b.series.KeyLength()
	return true
}

// Spell remembers that the series of the latest row, which is one of Series, is spelled so. A
// series that is new to the table is remembered when it comes again: many never do.
func (b *Builder) Spell(f Fingerprint) {
	n, v := b.table.spell(&f, b.number)
	e := v.Entry(n)
	if e == nil {
		return
	}
	e.SetLayout(b.layout)
	if e != b.known.entry {
		b.follow(n)
	}
	b.known.view, b.known.entry, b.known.next, b.known.here = v, e, e.Next(), true
}

// spell makes an entry of a fingerprint for a series, by the number of its entry. It returns
// 0 when the fingerprint cannot be remembered.
func (t *Table) spell(f *Fingerprint, series uint32) (uint32, *View) {
	if n, v := t.find(f.slot(), f[:], isPrint); n != 0 || series == 0 {
		return n, v
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	n, v := t.find(f.slot(), f[:], isPrint)
	if n != 0 || t.fullLocked() {
		return n, v
	}
	place, ok := t.keepLocked(f[:])
	if !ok {
		return 0, v
	}
	_, n = t.addLocked(f.slot(), place, len(f), isPrint, series)
	return n, t.view.Load()
}

// follow notes that the entry n comes behind the latest one.
func (b *Builder) follow(n uint32) {
	if b.known.entry != nil {
		b.known.entry.SetNext(n)
	}
}

// spells reports whether an entry is that of a fingerprint, as far as the view knows.
func (v *View) spells(e *Entry, f *Fingerprint) bool {
	if e.series.slot&isPrint == 0 || e.series.place>>placeBits >= uint32(len(v.pieces)) || !v.alive(e) || string(v.key(&e.series)) != string(f[:]) {
		return false
	}
	v.use(e)
	return true
}
