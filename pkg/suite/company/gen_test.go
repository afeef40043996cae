package company

import (
	"testing"
	"time"
)

func TestTmpGenerate(t *testing.T) {
	s := time.Now()
	w, err := Generate(Options{Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	t.Log(time.Since(s))
	for _, sp := range w.Splits() {
		n := map[string]int{}
		for _, x := range w.Tasks(sp) {
			n[x.Template]++
		}
		t.Log(sp, len(w.Tasks(sp)), n)
	}
	for i, x := range w.All() {
		if i%150 == 0 {
			t.Logf("%+v", x.Question)
			for _, c := range x.GoldPath {
				t.Logf("    %s %s  (%s)", c.Tool, c.Args, c.Thought)
			}
		}
	}
	s = time.Now()
	t.Log(len(CheckLeaks(w, w.All())), time.Since(s))
	s = time.Now()
	t.Log(len(CheckCheapest(w, w.All())), time.Since(s))
}
