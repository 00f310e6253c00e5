package otlp

import (
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// Options say how metrics are translated. The zero Options are Prometheus' defaults.
type Options struct {
	UTF8            bool     // names stay as they are
	NoSuffixes      bool     // names get no suffix of the unit or the type
	Promote         []string // attributes of the resource that all series have as labels
	PromoteAll      bool     // all attributes of the resource but Promote
	KeepIdentifying bool     // target_info has service.name and its like too
	PromoteScope    bool     // all series have the scope as labels
}

// ParseOptions reads Options from the parameters of a request. They have the names and
// values of Prometheus' settings.
func ParseOptions(q url.Values) (opt Options, err error) {
	const key = "translation_strategy"
	switch strategy := q.Get(key); strategy {
	case "", "UnderscoreEscapingWithSuffixes":
	case "UnderscoreEscapingWithoutSuffixes":
		opt.NoSuffixes = true
	case "NoUTF8EscapingWithSuffixes":
		opt.UTF8 = true
	case "NoTranslation":
		opt.UTF8, opt.NoSuffixes = true, true
	default:
		return opt, fmt.Errorf("unknown %s %q", key, strategy)
	}
	for name, to := range map[string]*bool{
		"promote_all_resource_attributes":      &opt.PromoteAll,
		"keep_identifying_resource_attributes": &opt.KeepIdentifying,
		"promote_scope_metadata":               &opt.PromoteScope,
	} {
		if text := q.Get(name); text != "" {
			if *to, err = strconv.ParseBool(text); err != nil {
				return opt, fmt.Errorf("%s must be true or false, not %q", name, text)
			}
		}
	}
	list := q.Get("promote_resource_attributes")
	if opt.PromoteAll {
		list = q.Get("ignore_resource_attributes")
	}
	for name := range strings.SplitSeq(list, ",") {
		if name = strings.TrimSpace(name); name != "" {
			opt.Promote = append(opt.Promote, name)
		}
	}
	return opt, nil
}

// promotes reports whether all series have an attribute of the resource as a label.
func (o *Options) promotes(key string) bool {
	return slices.Contains(o.Promote, key) != o.PromoteAll
}
