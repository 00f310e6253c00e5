package tsi

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// A picture of a value table that was taken early says the same when the table
// has grown, and the order of the numbers is that of the texts.
func TestValueTable(t *testing.T) {
	r := newRand(t)
	var table valueTable
	numbers := map[string]uint32{}
	var texts []string
	var picture valueList
	for i := range 30_000 {
		text := fmt.Sprintf("host-%0*d", r.IntN(12), r.IntN(20_000))
		switch {
		case i%5000 == 4999:
			text = strings.Repeat(text, 1+r.IntN(60_000)/len(text))
		case i%97 == 0:
			text = text[:r.IntN(4)+1]
		}
		n := table.number(text)
		if have, ok := numbers[text]; ok && have != n || !ok && int(n) != len(texts)+1 {
			t.Fatalf("text %d has number %d, had %d; %d are given", i, n, have, len(texts))
		}
		if int(n) > len(texts) {
			texts = append(texts, text)
			numbers[text] = n
		}
		if i == 10_000 {
			picture = table.values
		}
	}
	for i, text := range texts {
		if got := table.find(text); int(got) != i+1 {
			t.Fatalf("find %.20q: %d, want %d", text, got, i+1)
		}
		if i < picture.count() && picture.text(uint32(i+1)) != text {
			t.Fatalf("picture: number %d is %.20q, want %.20q", i+1, picture.text(uint32(i+1)), text)
		}
	}
	if got := table.find("another"); got != 0 || table.find("") != 0 || picture.text(0) != "" {
		t.Fatalf("find of an unknown text: %d", got)
	}
	var want, got []string
	for i := 0; i < len(texts); i += 2 {
		want = append(want, texts[i])
	}
	slices.Sort(want)
	for _, n := range table.values.order(func(n uint32) bool { return n%2 == 1 }) {
		got = append(got, table.values.text(n))
	}
	if !slices.Equal(got, want) {
		t.Fatal("the order of the numbers is not that of the texts")
	}
}

func TestPagedPicture(t *testing.T) {
	var p paged[uint32]
	var pictures []paged[uint32]
	for i := range 3*pagedLen + 5 {
		if i%1021 == 0 || i < 20 {
			pictures = append(pictures, p)
		}
		p.add(uint32(i))
	}
	pictures = append(pictures, p)
	for _, picture := range pictures {
		next := 0
		picture.each(func(first int, page []uint32) {
			if first != next {
				t.Fatalf("page begins at %d, want %d", first, next)
			}
			for i, v := range page {
				if int(v) != first+i || picture.at(first+i) != v {
					t.Fatalf("element %d is %d", first+i, v)
				}
			}
			next += len(page)
		})
		if next != picture.n {
			t.Fatalf("%d elements, want %d", next, picture.n)
		}
	}
}

// TestNumbers finds a number in a list, also in copies of it as it was, and looks at few
// pages if the numbers came in order.
func TestNumbers(t *testing.T) {
	r := newRand(t)
	const n = 5*pagedLen + 100
	for _, ascending := range []bool{true, false} {
		var list numbers
		var all []uint32
		var copies []numbers
		for i := range n {
			v := uint32(i / 10)
			if !ascending {
				v = uint32(r.IntN(n / 10))
			}
			if list.add(v); i%1000 == 0 || i%pagedLen >= pagedLen-2 || i%pagedLen < 2 {
				copies = append(copies, list)
			}
			all = append(all, v)
		}
		for _, c := range append(copies, list) {
			for _, v := range []uint32{all[r.IntN(c.n)], all[min(pagedLen, c.n)-1], all[c.n-1]} {
				var want, got []int
				for i, x := range all[:c.n] {
					if x == v {
						want = append(want, i)
					}
				}
				pages := 0
				c.eachWith(v, func(first int, page []uint32) {
					pages++
					for i, x := range page {
						if x == v {
							got = append(got, first+i)
						}
					}
				})
				if !slices.Equal(got, want) {
					t.Fatalf("%d of %d numbers: at %v, want %v", v, c.n, got, want)
				}
				if ascending && pages > 3 { // two neighbors, and the last one
					t.Fatalf("%d of %d numbers: %d pages", v, c.n, pages)
				}
			}
		}
	}
}
