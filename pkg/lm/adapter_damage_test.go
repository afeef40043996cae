package lm

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/lm/safetensors"
)

// Every way in which an adapter's file is not the configuration's is an error that names the keys: it is never loaded in
// part, which would look like an untrained one.
func TestDamagedAdapters(t *testing.T) {
	c := smallConfig()
	a, err := NewAdapter(c, &AdapterConfig{Rank: 2, Alpha: 4, TargetModules: []string{"q_proj", "down_proj"}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	whole, err := a.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	rename := func(old, with string) func([]safetensors.Tensor) []safetensors.Tensor {
		return func(ts []safetensors.Tensor) []safetensors.Tensor {
			for i := range ts {
				ts[i].Name = strings.ReplaceAll(ts[i].Name, old, with)
			}
			return ts
		}
	}
	for name, d := range map[string]struct {
		change func(ts []safetensors.Tensor) []safetensors.Tensor
		want   []string
	}{
		"a prefix less":   {rename("base_model.model.", ""), []string{"missing base_model.model.", "unexpected model.layers"}},
		"a prefix more":   {rename("base_model.", "base_model.model."), []string{"missing", "unexpected base_model.model.model.model."}},
		"another piece":   {rename("self_attn", "attn"), []string{"missing", "unexpected", ".attn."}},
		"an adapter name": {rename("lora_A.weight", "lora_A.default.weight"), []string{"missing", "unexpected", "lora_A.default.weight"}},
		"halves exchanged": {func(ts []safetensors.Tensor) []safetensors.Tensor {
			ts[0].Name, ts[1].Name = ts[1].Name, ts[0].Name
			return ts
		}, []string{whole[0].Name, "shape"}},
		"one key less": {func(ts []safetensors.Tensor) []safetensors.Tensor { return ts[1:] }, []string{"missing " + whole[0].Name}},
		"one key more": {func(ts []safetensors.Tensor) []safetensors.Tensor {
			more := ts[0]
			more.Name = strings.Replace(more.Name, "layers.0", "layers.7", 1)
			return append(ts, more)
		}, []string{"unexpected", "layers.7"}},
		"another rank": {func(ts []safetensors.Tensor) []safetensors.Tensor {
			ts[0].Shape = []int{1, ts[0].Shape[1]}
			ts[0].Data = ts[0].Data[:ts[0].Shape[1]]
			return ts
		}, []string{whole[0].Name, "shape"}},
		"nothing": {func([]safetensors.Tensor) []safetensors.Tensor { return nil }, []string{"missing " + whole[0].Name}},
	} {
		dir := t.TempDir()
		if err := a.Save(dir); err != nil {
			t.Fatal(err)
		}
		if err := safetensors.WriteFile(filepath.Join(dir, adapterWeightsFile), d.change(slices.Clone(whole)), nil); err != nil {
			t.Fatal(err)
		}
		_, err := LoadAdapter(dir, c)
		if err == nil {
			t.Errorf("%s: loaded", name)
			continue
		}
		for _, want := range append(d.want, dir) {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: error %v does not say %q", name, err, want)
			}
		}
	}
	dir := t.TempDir()
	if err := a.Save(dir); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, adapterWeightsFile)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{0, 4, 8, 40, len(b) / 2, len(b) - 1} {
		if err := os.WriteFile(path, b[:n], 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadAdapter(dir, c); err == nil || !strings.Contains(err.Error(), adapterWeightsFile) {
			t.Errorf("cut at %d of %d bytes: error %v, want one that names the file", n, len(b), err)
		}
	}
	if _, err := LoadAdapter(t.TempDir(), c); err == nil || !strings.Contains(err.Error(), adapterConfigFile) {
		t.Errorf("an empty folder: %v", err)
	}
}
