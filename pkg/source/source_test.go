package source_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/source"
)

func Example() {
	obs := "48 | red\nleft 2"
	r := source.Read{Start: 0, End: 2, From: []string{"products.stock@17"}}
	part, _ := r.Part(obs)
	want := source.Evidence{Value: "48", Sources: []string{"products.stock@17"}}
	fmt.Println(part, want.Takes(r.From), want.Takes([]string{"products.stock@18"}))
	// Output: 48 true false
}

func TestJSON(t *testing.T) {
	for _, c := range []struct {
		json string
		want source.Evidence
	}{
		{`"48"`, source.Evidence{Value: "48"}},
		{`{"value":"48","sources":["a.b@1","a.c@2"]}`, source.Evidence{Value: "48", Sources: []string{"a.b@1", "a.c@2"}}},
	} {
		var got source.Evidence
		if err := json.Unmarshal([]byte(c.json), &got); err != nil || fmt.Sprint(got) != fmt.Sprint(c.want) {
			t.Errorf("%s: %v, %v; want %v", c.json, got, err, c.want)
		}
		if b, err := json.Marshal(got); err != nil || string(b) != c.json {
			t.Errorf("%v is written %s, %v; want %s", got, b, err, c.json)
		}
	}
	for _, bad := range []string{`{}`, `{"value":"48"}`, `{"sources":["a"]}`, `48`, `{"value":"48","sources":[]}`} {
		if err := json.Unmarshal([]byte(bad), new(source.Evidence)); err == nil {
			t.Errorf("%s: read without an error", bad)
		}
	}
}

func TestPartLiesWithinTheText(t *testing.T) {
	for _, r := range []source.Read{{Start: -1, End: 1}, {Start: 2, End: 1}, {Start: 0, End: 4}} {
		if p, ok := r.Part("abc"); ok {
			t.Errorf("%v of abc: %q", r, p)
		}
	}
	if p, ok := (source.Read{Start: 1, End: 3}).Part("abc"); !ok || p != "bc" {
		t.Errorf("%q, %v", p, ok)
	}
}
