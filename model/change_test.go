package model

import "testing"

func TestChange(t *testing.T) {
	for _, c := range []struct {
		what      string
		change    Change
		key, want string
	}{
		{"measurement", Change{Measurement: "a", To: "b c"}, "a,x=1,y=2", `b\ c,x=1,y=2`},
		{"measurement without tags", Change{Measurement: "a", To: "b"}, "a", "b"},
		{"tag", Change{Measurement: "a", To: "a", RenameTag: Rename{"x", "z"}}, "a,x=1,y=2", "a,y=2,z=1"},
		{"tag that is not there", Change{Measurement: "a", To: "a", RenameTag: Rename{"q", "z"}}, "a,x=1", "a,x=1"},
		{"set", Change{Measurement: "a", To: "a", Set: Tags{{"b", "new"}, {"x", "3=4"}}}, "a,x=1,y=2", `a,b=new,x=3\=4,y=2`},
		{"drop", Change{Measurement: "a", To: "a", Drop: []string{"y", "x"}}, "a,w=0,x=1,y=2", "a,w=0"},
		{"field", Change{Measurement: "a", To: "a", RenameField: Rename{"f", "g"}}, "a,f=1", "a,f=1"},
	} {
		got, tags := c.change.AppendKey([]byte("> "), c.key, nil)
		if string(got) != "> "+c.want {
			t.Errorf("%s: %s, want %s", c.what, got, c.want)
		}
		if again, _ := c.change.AppendKey(nil, c.key, tags); string(again) != c.want {
			t.Errorf("%s with scratch: %s, want %s", c.what, again, c.want)
		}
	}
	c := Change{Measurement: "a", To: "b", Set: Tags{{"x", "1"}}, Drop: []string{"y"}, RenameTag: Rename{"p", "q"}, RenameField: Rename{"f", "g"}}
	if got := c.String(); got != `"a", to "b", "x"="1", drop "y", tag "p" to "q", field "f" to "g"` {
		t.Error(got)
	}
}
