package otlp

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/prometheus/otlptranslator"

	"tsdbd/model"
	"tsdbd/prom"
)

// The labels that say where a metric comes from, and the attributes of a resource
// that become them.
const (
	jobLabel      = "job"
	instanceLabel = "instance"

	serviceName      = "service.name"
	serviceNamespace = "service.namespace"
	serviceInstance  = "service.instance.id"
)

// identifying are the attributes of a resource that target_info does not have by default.
var identifying = []string{serviceName, serviceNamespace, serviceInstance}

// attribute is a KeyValue. It shares the memory of the request.
type attribute struct {
	key, value string
	label      string // the name of the label
}

// attributes are those of a resource, a scope or a data point.
type attributes struct {
	list []attribute
	bad  error // why the first one that cannot be a label is none
}

func (a *attributes) reset() { a.list, a.bad = a.list[:0], nil }

// add adds a KeyValue. It returns an error if b is no message.
func (a *attributes) add(b []byte) error {
	key, value, err := pair(b)
	if err != nil {
		return err
	}
	s, err := text(value)
	if err == nil {
		a.list = append(a.list, attribute{key: key, value: s})
		return nil
	}
	var wire *WireError
	if errors.As(err, &wire) {
		return err
	}
	if a.bad == nil {
		a.bad = fmt.Errorf("attribute %q %w", key, err)
	}
	return nil
}

// get returns the value of an attribute.
func (a *attributes) get(key string) (string, bool) {
	for _, x := range a.list {
		if x.key == key {
			return x.value, true
		}
	}
	return "", false
}

// appendLabels appends the labels of attributes in the order of their names. The
// values of attributes whose labels have the same name are joined by ';', in the order
// of the attributes' keys.
func (t *translation) appendLabels(dst model.Tags, a *attributes) (model.Tags, error) {
	if a.bad != nil {
		return dst, a.bad
	}
	byKey := func(x, y attribute) int { return strings.Compare(x.key, y.key) }
	slices.SortStableFunc(a.list, byKey)
	for i := range a.list {
		label, err := t.label(a.list[i].key)
		if err != nil {
			return dst, err
		}
		a.list[i].label = label
	}
	byLabel := func(x, y attribute) int { return strings.Compare(x.label, y.label) }
	slices.SortStableFunc(a.list, byLabel)
	for rest := a.list; len(rest) > 0; {
		n := 1
		for n < len(rest) && rest[n].label == rest[0].label {
			n++
		}
		if rest[0].label != prom.NameLabel {
			if value := join(rest[:n]); value != "" {
				dst = append(dst, model.Tag{Key: rest[0].label, Value: value})
			}
		}
		rest = rest[n:]
	}
	return dst, nil
}

// join joins the values of attributes from the first one that is not empty.
func join(list []attribute) string {
	for len(list) > 1 && list[0].value == "" {
		list = list[1:]
	}
	if len(list) == 1 {
		return list[0].value
	}
	var b strings.Builder
	b.WriteString(list[0].value)
	for _, x := range list[1:] {
		b.WriteByte(';')
		b.WriteString(x.value)
	}
	return b.String()
}

// set sets a label of labels that are in order. An empty value removes it.
func set(labels model.Tags, name, value string) model.Tags {
	i, found := find(labels, name)
	switch {
	case found && value == "":
		return slices.Delete(labels, i, i+1)
	case found:
		labels[i].Value = value
	case value != "":
		return slices.Insert(labels, i, model.Tag{Key: name, Value: value})
	}
	return labels
}

func find(labels model.Tags, name string) (int, bool) {
	return slices.BinarySearchFunc(labels, name, func(t model.Tag, name string) int { return strings.Compare(t.Key, name) })
}

// label returns the name of the label of an attribute, as Prometheus makes it by default.
func (t *translation) label(key string) (string, error) {
	if name, ok := t.labels[key]; ok {
		return name, nil
	}
	if key == "" {
		return "", errors.New("attribute without a name")
	}
	//lint:ignore SA1019 Prometheus sets UnderscoreLabelSanitization by default, and its labels are ours.
	namer := otlptranslator.LabelNamer{UTF8Allowed: t.opt.UTF8, UnderscoreLabelSanitization: true, PreserveMultipleUnderscores: true}
	name, err := namer.Build(key)
	if err != nil {
		return "", fmt.Errorf("attribute %q: the label would consist of underscores only", key)
	}
	t.labels[key] = name
	return name, nil
}
