package lm

import (
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
	"github.com/toolroute/toolroute/pkg/lm/safetensors"
)

func goBackend(t testing.TB) *Backend {
	t.Helper()
	b, err := OpenBackend(KindGo)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// tinyConfig is the size of model that is trained from scratch on a CPU.
func tinyConfig() *Config {
	return &Config{Vocab: 384, Hidden: 96, Layers: 4, Heads: 3, KVHeads: 1, HeadDim: 32, FFN: 256, RopeTheta: 1e4, Eps: 1e-6, Tied: true, MaxPositions: 512, Pad: -1}
}

// The same seed gives the same bits, and the spread of each kind of parameter is what is documented.
func TestInitialWeights(t *testing.T) {
	c := tinyConfig()
	c.Tied = false
	w, err := NewRandomWeights(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	same, err := NewRandomWeights(c, 3)
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewRandomWeights(c, 4)
	if err != nil {
		t.Fatal(err)
	}
	a, err := w.Host()
	if err != nil {
		t.Fatal(err)
	}
	b, _ := same.Host()
	d, _ := other.Host()
	residual := math.Sqrt(2 * float64(c.Layers))
	for i, x := range a {
		if !slices.Equal(x.Data, b[i].Data) {
			t.Fatalf("%s differs between two draws of one seed", x.Name)
		}
		sum := 0.0
		for _, v := range x.Data {
			sum += float64(v) * float64(v)
		}
		got := math.Sqrt(sum / float64(len(x.Data))) // root mean square
		want := 0.0
		switch {
		case strings.HasSuffix(x.Name, "norm.weight"):
			want = 1
		case strings.HasSuffix(x.Name, ".bias"):
		case x.Name == "model.embed_tokens.weight":
			want = 0.1
		case strings.Contains(x.Name, "o_proj"), strings.Contains(x.Name, "down_proj"):
			want = 0.6 / math.Sqrt(float64(x.Shape[1])) / residual
		default:
			want = 0.6 / math.Sqrt(float64(x.Shape[1]))
		}
		if math.Abs(got-want) > 0.05*want {
			t.Errorf("%s: root mean square %v, want %v", x.Name, got, want)
		}
		if len(x.Shape) == 2 && slices.Equal(x.Data, d[i].Data) {
			t.Errorf("%s is the same for two seeds", x.Name)
		}
	}
}

func TestSaveAndLoad(t *testing.T) {
	b := goBackend(t)
	for _, tied := range []bool{true, false} {
		c := smallConfig()
		c.Tied = tied
		m, err := NewRandom(b, c, 1)
		if err != nil {
			t.Fatal(err)
		}
		dir := filepath.Join(t.TempDir(), "model")
		if err := m.Save(dir); err != nil {
			t.Fatal(err)
		}
		again, err := Load(b, dir)
		if err != nil {
			t.Fatal(err)
		}
		want, err := m.Weights.Host()
		if err != nil {
			t.Fatal(err)
		}
		got, err := again.Weights.Host()
		if err != nil {
			t.Fatal(err)
		}
		for i := range want {
			if got[i].Name != want[i].Name || !slices.Equal(got[i].Data, want[i].Data) {
				t.Errorf("tied %v: %s changed", tied, want[i].Name)
			}
		}
	}
}

// Every tensor that does not fit is named, all in one error.
func TestLoadErrors(t *testing.T) {
	b := goBackend(t)
	m, err := NewRandom(b, smallConfig(), 1)
	if err != nil {
		t.Fatal(err)
	}
	ts, err := m.Weights.Host()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := m.Save(dir); err != nil {
		t.Fatal(err)
	}
	bad := slices.Clone(ts)
	bad[1].Name = "model.layers.0.input_norm.weight"
	bad[2].Shape = []int{len(bad[2].Data)}
	if err := safetensors.WriteFile(filepath.Join(dir, weightsFile), bad, nil); err != nil {
		t.Fatal(err)
	}
	_, err = Load(b, dir)
	for _, want := range []string{"3 tensors", "missing " + ts[1].Name, "unexpected " + bad[1].Name, ts[2].Name + " has shape"} {
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("error %v, want one with %q", err, want)
		}
	}
	for index, want := range map[string]string{
		`{"weight_map":{"a":"../other.safetensors"}}`: "outside the folder",
		`{"weight_map":{}}`:                           "weight_map",
		`{"weight_map":{"a":"absent.safetensors"}}`:   "absent.safetensors",
		`not json`: indexFile,
	} {
		if err := os.WriteFile(filepath.Join(dir, indexFile), []byte(index), 0o644); err != nil {
			t.Fatal(err)
		}
		if _, err := Load(b, dir); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("index %s: error %v, want %q", index, err, want)
		}
	}
}

// A shard listed in the index but cut off must name the file.
func TestTruncatedShard(t *testing.T) {
	src := fixtures.Dir(t, "tiny_qwen2/untied_sharded")
	dir := t.TempDir()
	entries, err := os.ReadDir(src)
	if err != nil {
		t.Fatal(err)
	}
	cut := ""
	for _, e := range entries {
		b, err := os.ReadFile(filepath.Join(src, e.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if cut == "" && strings.HasSuffix(e.Name(), ".safetensors") {
			cut, b = e.Name(), b[:len(b)-7]
		}
		if err := os.WriteFile(filepath.Join(dir, e.Name()), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := Load(goBackend(t), dir); err == nil || !strings.Contains(err.Error(), cut) {
		t.Errorf("error %v, want one naming %s", err, cut)
	}
}

func TestWeightsReplaceAndClone(t *testing.T) {
	w, err := NewRandomWeights(smallConfig(), 1)
	if err != nil {
		t.Fatal(err)
	}
	frozen, err := w.Clone()
	if err != nil {
		t.Fatal(err)
	}
	other, err := NewRandomWeights(smallConfig(), 2)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Replace(other.Tensors()); err != nil {
		t.Fatal(err)
	}
	a, err := frozen.Host() // must have survived the release of what it was copied from
	if err != nil {
		t.Fatal(err)
	}
	b, err := w.Host()
	if err != nil {
		t.Fatal(err)
	}
	if slices.Equal(a[0].Data, b[0].Data) {
		t.Error("the clone followed the original")
	}
	if err := w.Replace(other.Tensors()[1:]); err == nil {
		t.Error("too few tensors: no error")
	}
	if n := w.NumParameters(); n == 0 || n != frozen.NumParameters() {
		t.Errorf("%d and %d parameters", n, frozen.NumParameters())
	}
}

func TestOpenBackend(t *testing.T) {
	if _, err := OpenBackend("tpu"); err == nil || !strings.Contains(err.Error(), "xla:cpu") {
		t.Errorf("unknown choice: error %v, want one that lists the choices", err)
	}
	a, b := goBackend(t), goBackend(t)
	if a != b {
		t.Error("two clients in one process")
	}
}
