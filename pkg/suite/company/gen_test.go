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
	n := 0
	w.probe.cache.Range(func(k, v any) bool { n++; return true })
	t.Log("queries", n, w.stores.docs.Len(), w.stores.web.Len())
}
