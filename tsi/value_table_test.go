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
