package judge

import (
	"encoding/base64"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/DataDog/sketches-go/ddsketch"
	"github.com/DataDog/sketches-go/ddsketch/mapping"
	"github.com/DataDog/sketches-go/ddsketch/store"
)

// ranks returns all numbers in order, as text.
func ranks(a *aggregate) string {
	a.rank(0)
	var out []float64
	for _, s := range a.all {
		out = append(out, s.number)
	}
	return fmt.Sprint(out)
}

// ranked returns what a sketch of a target, as text, says of the numbers of an aggregate: ranks, if
// there are as many, and each is near enough.
func ranked(cell any, a *aggregate) string {
	text, _ := cell.(string)
	b, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(text, "DDS_"))
	if err != nil || len(b) == 0 || b[0] != 1 {
		return fmt.Sprintf("%v, no sketch", cell)
	}
	bins, err := mapping.NewLogarithmicMapping(precision)
	if err != nil {
		return err.Error()
	}
	s, err := ddsketch.DecodeDDSketch(b[1:], store.SparseStoreConstructor, bins)
	if err != nil {
		return fmt.Sprintf("%v, %v", cell, err)
	}
	var all []float64
	s.ForEach(func(value, count float64) bool {
		for range int(count) {
			all = append(all, value)
		}
		return false
	})
	slices.Sort(all)
	far := len(all) != len(a.all)
	for i := 0; i < len(all) && !far; i++ {
		want := a.rank(i)
		far = math.Abs(all[i]-want.number) > share(want)*(1+1e-9)
	}
	if far {
		return fmt.Sprintf("about %.4g", all)
	}
	return ranks(a)
}
