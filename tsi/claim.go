package tsi

import (
	"fmt"

	"tsdbd/model"
	"tsdbd/model/point"
)

// FieldClaim holds the types of new fields for one write, from its checks until
// its entry of the log is applied or refused. Nothing of a claim is readable or
// gets into a file: RegisterFields, which the applier calls, makes a type
// final. So a write that is refused leaves no type behind. A FieldClaim is for
// one goroutine.
type FieldClaim struct {
	index  *Index
	fields []fieldName
	own    map[fieldName]bool // the same, once there are any
}

// fieldName is a field of a measurement.
type fieldName struct{ measurement, field string }

// claimedType is the type that one or more claims hold for a field.
type claimedType struct {
	fieldType model.FieldType
	claims    int
	settled   chan struct{} // closed with the last claim; nil: nobody waits
	// registered says that the applier has registered the field in the meantime.
	registered bool
}

// ClaimFields returns an empty claim. The caller must call its TakeBack(0).
func (x *Index) ClaimFields() *FieldClaim { return &FieldClaim{index: x} }

// CheckFields reports how many fields of a layout are not registered, and
// which are registered with another type. It changes nothing.
func (x *Index) CheckFields(l *point.Layout) (missing int, conflicts []FieldConflict) {
	x.mu.RLock()
	defer x.mu.RUnlock()
	return missingFields(x.mu.measurements[l.Measurement], l)
}

// Add claims the fields of a layout that are not registered, all or none. most is
// the number of fields that the measurement may have, 0: any. Add returns the reason
// why it claims none: a conflict with a registered type or with a type that this
// claim holds, or too many fields. If another claim holds another type, nobody can
// tell yet whether that type becomes final: Add returns a channel that is closed when
// it is decided. The caller must take its claims back before it waits, so that two
// writes never wait for each other.
func (c *FieldClaim) Add(l *point.Layout, most int) (refused string, undecided <-chan struct{}) {
	x := c.index
	x.mu.Lock()
	defer x.mu.Unlock()
	m := x.mu.measurements[l.Measurement]
	missing, conflicts := missingFields(m, l)
	if len(conflicts) > 0 {
		return conflicts[0].Reason(l.Measurement), nil
	}
	if missing == 0 {
		return "", nil
	}
	for _, f := range l.Fields {
		name := fieldName{l.Measurement, f.Key}
		have := x.mu.claims[name]
		switch {
		case have == nil:
		case have.fieldType == f.Type:
			if !have.registered {
				missing--
			}
		case c.own[name]:
			return FieldConflict{Field: f, Have: have.fieldType}.Reason(l.Measurement), nil
		default:
			if have.settled == nil {
				have.settled = make(chan struct{})
			}
			undecided = have.settled
		}
	}
	if undecided != nil {
		return "", undecided
	}
	if n := m.count() + x.mu.claimed[l.Measurement]; most > 0 && missing > most-n {
		return fmt.Sprintf("max-fields-per-measurement limit exceeded (%d/%d): measurement=%q", n, most, l.Measurement), nil
	}
	for _, f := range l.Fields {
		if m != nil {
			if _, registered := m.fieldType(f.Key); registered {
				continue
			}
		}
		c.addLocked(fieldName{l.Measurement, f.Key}, f.Type)
	}
	return "", nil
}

func (c *FieldClaim) addLocked(name fieldName, t model.FieldType) {
	if c.own[name] {
		return
	}
	if c.own == nil {
		c.own = map[fieldName]bool{}
	}
	c.own[name] = true
	c.fields = append(c.fields, name)
	x := c.index
	if x.mu.claims == nil {
		x.mu.claims, x.mu.claimed = map[fieldName]*claimedType{}, map[string]int{}
	}
	have := x.mu.claims[name]
	if have == nil {
		have = &claimedType{fieldType: t}
		x.mu.claims[name] = have
		x.mu.claimed[name.measurement]++
	}
	have.claims++
}

// registerClaimedLocked notes that a field that may be claimed is registered now.
func (x *Index) registerClaimedLocked(name fieldName) {
	if have := x.mu.claims[name]; have != nil && !have.registered {
		have.registered = true
		x.unclaimLocked(name.measurement)
	}
}

// unclaimLocked takes one off the claimed fields of a measurement.
func (x *Index) unclaimLocked(measurement string) {
	if x.mu.claimed[measurement]--; x.mu.claimed[measurement] == 0 {
		delete(x.mu.claimed, measurement)
	}
}

// Len returns the number of claimed fields.
func (c *FieldClaim) Len() int { return len(c.fields) }

// TakeBack gives up all claimed fields but the first n. A field that the applier
// has registered in between stays registered.
func (c *FieldClaim) TakeBack(n int) {
	if len(c.fields) == n {
		return
	}
	x := c.index
	x.mu.Lock()
	defer x.mu.Unlock()
	for _, name := range c.fields[n:] {
		delete(c.own, name)
		have := x.mu.claims[name]
		if have.claims--; have.claims > 0 {
			continue
		}
		delete(x.mu.claims, name)
		if !have.registered {
			x.unclaimLocked(name.measurement)
		}
		if have.settled != nil {
			close(have.settled)
		}
	}
	c.fields = c.fields[:n]
}
