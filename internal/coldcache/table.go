package coldcache

import (
	"sync"
	"sync/atomic"

	"tsdbd/internal/mapped"
	"tsdbd/internal/vfs"
)

// key names a range of an object.
type key struct {
	object objectID
	n      uint32
}

// entry is a range: on its way, in a buffer, or in a file.
type entry struct {
	key  key
	size int         // of the range
	used atomic.Bool // since the clock's hand was here
	slot int         // in the clock, whose lock it is under; -1: it is not there

	mu struct {
		sync.Mutex
		flight *flight      // it is on its way
		buffer *buffer      // it is in memory, until a run takes that
		name   string       // of its file, or ""
		file   *mapped.File // is mapped when it is read
		read   bool         // by somebody
		gone   bool         // it is not in the table any more
	}
}

// offset returns where the range begins in the object.
func (e *entry) offset() int64 { return int64(e.key.n) * rangeBytes }

// flight returns the flight of a range that is on its way.
func (e *entry) flight() *flight {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.flight
}

// there reports whether the range can be read.
func (e *entry) there() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.flight == nil && !e.mu.gone
}

// wasRead reports whether somebody has read the range since it came.
func (e *entry) wasRead() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.mu.read
}

// read copies bytes of the range, and reports whether it could, and whether nobody has
// read of it before. A file that is damaged is dropped.
func (e *entry) read(o *Object, p []byte, at int64) (ok, first bool) {
	file, ok, first, fresh, err := e.acquire(o, p, at)
	if file != nil {
		err = copyOf(p, file, at)
		if rerr := file.Release(); rerr != nil {
			o.c.warn(rerr)
		}
		ok = err == nil
	}
	if ok && !first && !e.used.Load() {
		e.used.Store(true)
	}
	if err != nil {
		o.c.warn(err)
		o.c.drop(e)
	}
	if fresh {
		if old := o.c.mappings.add(e); old != nil {
			if err := old.unmap(); err != nil {
				o.c.warn(err)
			}
		}
	}
	return ok, first
}

// acquire returns the mapped file of the range with a reference for the caller, and whether
// it was mapped now. If the range is in memory it copies the bytes itself.
func (e *entry) acquire(o *Object, p []byte, at int64) (file *mapped.File, ok, first, fresh bool, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.gone || e.mu.flight != nil {
		return nil, false, false, false, nil
	}
	first, e.mu.read = !e.mu.read, true
	if b := e.mu.buffer; b != nil {
		copy(p, b.bytes[at:])
		return nil, true, first, false, nil
	}
	if e.mu.file == nil {
		if e.mu.file, err = o.c.openRange(o, e); err != nil {
			return nil, false, first, false, err
		}
		fresh = true
	}
	e.mu.file.Acquire()
	return e.mu.file, false, first, fresh, nil
}

// leave has the range read from its file from now on. It returns false if there is none.
func (e *entry) leave(b *buffer) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.mu.buffer == b && e.mu.name != "" {
		e.mu.buffer = nil
	}
	return e.mu.buffer != b
}

// copyOf copies bytes of a mapped file. A fault is an error.
func copyOf(p []byte, f *mapped.File, at int64) (err error) {
	defer vfs.CatchFault(&err)()
	copy(p, f.Data()[at:])
	return nil
}

// unmap gives the mapping back. The next read maps the file again.
func (e *entry) unmap() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	f := e.mu.file
	if f == nil {
		return nil
	}
	e.mu.file = nil
	return f.Release()
}

// drop takes a range out of the cache. Its file goes with the last reader.
func (c *Cache) drop(e *entry) {
	c.table.remove(e)
	c.clock.remove(e)
	e.mu.Lock()
	defer e.mu.Unlock()
	e.mu.gone, e.mu.flight, e.mu.buffer = true, nil, nil
	var err error
	switch {
	case e.mu.file != nil:
		e.mu.file.Obsolete(true)
		err = e.mu.file.Release()
	case e.mu.name != "":
		err = c.opt.FS.Remove(c.path(e.mu.name))
	}
	if e.mu.file, e.mu.name = nil, ""; err != nil {
		c.warn(err)
	}
}

// table finds ranges.
type table [64]tablePart

type tablePart struct {
	sync.Mutex
	entries map[key]*entry
}

func (t *table) part(k key) *tablePart {
	return &t[(uint32(k.object[0])+k.n)%uint32(len(t))]
}

// find returns a range that is there or on its way, or nil.
func (t *table) find(k key) *entry {
	p := t.part(k)
	p.Lock()
	defer p.Unlock()
	return p.entries[k]
}

// begin adds a range that is on its way. If the range is known, it returns it and adds
// nothing.
func (t *table) begin(k key, size int, f *flight) *entry {
	p := t.part(k)
	p.Lock()
	defer p.Unlock()
	if e := p.entries[k]; e != nil {
		return e
	}
	f.e = &entry{key: k, size: size, slot: -1}
	f.e.mu.flight = f
	p.add(f.e)
	return nil
}

// replace adds a range and returns the one that was there before.
func (t *table) replace(e *entry) (old *entry) {
	p := t.part(e.key)
	p.Lock()
	defer p.Unlock()
	old = p.entries[e.key]
	p.add(e)
	return old
}

func (p *tablePart) add(e *entry) {
	if p.entries == nil {
		p.entries = map[key]*entry{}
	}
	p.entries[e.key] = e
}

// remove takes out a range, unless another one has its place.
func (t *table) remove(e *entry) {
	p := t.part(e.key)
	p.Lock()
	defer p.Unlock()
	if p.entries[e.key] == e {
		delete(p.entries, e.key)
	}
}

// all returns all ranges.
func (t *table) all() (out []*entry) {
	for i := range t {
		p := &t[i]
		p.Lock()
		for _, e := range p.entries {
			out = append(out, e)
		}
		p.Unlock()
	}
	return out
}
