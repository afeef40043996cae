package lm

import (
	"math"
	"slices"
	"testing"

	"github.com/gomlx/gomlx/core/graph"

	"github.com/toolroute/toolroute/pkg/internal/fixtures"
)

// filteredProbs is a program that returns the distribution that is drawn from.
func filteredProbs(t *testing.T, b *Backend) *Program {
	return mustProgram(t, b, "filter", func(in []*graph.Node) []*graph.Node {
		logits, settings, seen := in[0], in[1], in[2]
		column := func(i int) *graph.Node {
			return graph.Slice(settings, graph.AxisRange(), graph.AxisRange(i, i+1))
		}
		scores := graph.Div(penalize(logits, seen, column(4)), column(0))
		return []*graph.Node{softmax(filter(scores, column(1), column(2), column(3)))}
	})
}

func TestSamplingEqualsReference(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	var cases struct {
		Cases map[string][][2]any `json:"cases"`
	}
	fixtures.JSON(t, "tiny_qwen2", "sampling.json", &cases)
	ref := openVectors(t, fixtures.Dir(t, "tiny_qwen2"), "sampling.safetensors")
	logits, shape := ref.floats("logits")
	prev, prevShape := ref.ints("input_ids")
	n, v := shape[0], shape[1]
	seen := make([]float32, n*v)
	for i, id := range prev {
		seen[i/prevShape[1]*v+int(id)] = 1
	}
	eachBackend(t, func(t *testing.T, b *Backend) {
		run := filteredProbs(t, b)
		for name, ops := range cases.Cases {
			s := Sampling{Temperature: 1}
			for _, op := range ops {
				x := op[1].(float64)
				switch op[0] {
				case "temperature":
					s.Temperature = x
				case "top_k":
					s.TopK = int(x)
				case "top_p":
					s.TopP = x
				case "min_p":
					s.MinP = x
				case "repetition_penalty":
					s.RepetitionPenalty = x
				default:
					t.Fatalf("unknown step %v", op[0])
				}
			}
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			settings := make([][]float32, n)
			for i := range settings {
				r := s.row(v)
				settings[i] = r[:]
			}
			out := mustCall(t, run, rows(logits, v), settings, rows(seen, v))
			got := mustFloats(t, out[0])
			want, _ := ref.floats("probs." + name)
			d := worst(t, name, got, want, nil, fixtures.ToleranceOf(t, "tiny_qwen2.sampling"))
			t.Logf("%-16s largest difference %.2g", name, d)
		}
	})
}

// Evenly spaced uniforms must give every token as often as its probability says, to within one draw, and never a token
// of probability 0; the log-probabilities must be those of the two distributions.
func TestDrawFollowsDistribution(t *testing.T) {
	t.Parallel() // compiling takes most of the time, on one core
	const v = 300
	logits := make([]float32, v)
	for i := range logits {
		logits[i] = float32(3 * math.Sin(float64(i*i)))
	}
	seen := make([]float32, v)
	for i := range 40 {
		seen[i*7] = 1
	}
	eachBackend(t, func(t *testing.T, b *Backend) {
		const n = 200
		u, many, seenMany := make([]float32, n), make([][]float32, n), make([][]float32, n)
		for i := range u {
			u[i], many[i], seenMany[i] = (float32(i)+0.5)/float32(n), logits, seen
		}
		for name, s := range map[string]Sampling{
			"plain":    {Temperature: 0.8},
			"filtered": {Temperature: 1.2, TopK: 100, TopP: 0.9, MinP: 0.01},
			"penalty":  {Temperature: 1, RepetitionPenalty: 1.3},
			"both":     {Temperature: 1, TopP: 0.8, RepetitionPenalty: 1.3},
			"greedy":   {TopP: 0.5, RepetitionPenalty: 1.3},
		} {
			if b.Loops() && s.penalizes() && s.Temperature > 0 {
				continue // compiling takes seconds, and the parts are covered by the other cases
			}
			smp := sampler{filter: s.filters(), penalty: s.penalizes()}
			run := mustProgram(t, b, "draw", func(in []*graph.Node) []*graph.Node {
				d := smp.sample(in[0], in[1], in[2], in[3])
				return []*graph.Node{d.token, d.logProb, d.filtered, d.entropy}
			})
			set := make([][]float32, n)
			for i := range set {
				r := s.row(v)
				set[i] = r[:]
			}
			out := mustCall(t, run, many, u, set, seenMany)
			tokens, err := Ints(out[0])
			if err != nil {
				t.Fatal(err)
			}
			lp, flp, ent := mustFloats(t, out[1]), mustFloats(t, out[2]), mustFloats(t, out[3])
			raw, filtered := hostDistribution(logits, seen, s)
			if s.Temperature == 0 {
				best := slices.Index(filtered, slices.Max(filtered))
				for i, id := range tokens {
					if int(id) != best || flp[i] != 0 {
						t.Fatalf("greedy row %d: token %d with log-probability %v, want %d with 0", i, id, flp[i], best)
					}
				}
				continue
			}
			counts := make([]int, v)
			for i, id := range tokens {
				counts[id]++
				if d := math.Abs(float64(lp[i]) - math.Log(raw[id])); d > 1e-5 {
					t.Fatalf("%s: token %d log-probability %v, want %v", name, id, lp[i], math.Log(raw[id]))
				}
				if d := math.Abs(float64(flp[i]) - math.Log(filtered[id])); d > 1e-5 {
					t.Fatalf("%s: token %d filtered log-probability %v, want %v", name, id, flp[i], math.Log(filtered[id]))
				}
			}
			wantEnt := 0.0
			for i, c := range counts {
				if d := math.Abs(float64(c) - float64(n)*filtered[i]); d > 1.01 || filtered[i] == 0 && c > 0 {
					t.Errorf("%s: token %d drawn %d times, want %.2f", name, i, c, float64(n)*filtered[i])
				}
				wantEnt -= raw[i] * math.Log(raw[i])
			}
			if d := math.Abs(float64(ent[0]) - wantEnt); d > 1e-5 {
				t.Errorf("%s: entropy %v, want %v", name, ent[0], wantEnt)
			}
		}
	})
}

// hostDistribution computes both distributions of one row in float64, straight from the definitions. The logits must
// have no ties.
func hostDistribution(logits, seen []float32, s Sampling) (raw, filtered []float64) {
	norm := func(z []float64) []float64 {
		sum, top := 0.0, slices.Max(z)
		p := make([]float64, len(z))
		for i, x := range z {
			p[i] = math.Exp(x - top)
			sum += p[i]
		}
		for i := range p {
			p[i] /= sum
		}
		return p
	}
	temp := s.Temperature
	if temp == 0 {
		temp = 1
	}
	z, y := make([]float64, len(logits)), make([]float64, len(logits))
	for i, x := range logits {
		z[i], y[i] = float64(x)/temp, float64(x)/temp
		if s.penalizes() && seen[i] > 0 {
			if x < 0 {
				y[i] *= s.RepetitionPenalty
			} else {
				y[i] /= s.RepetitionPenalty
			}
		}
	}
	desc := make([]int, len(y))
	for i := range desc {
		desc[i] = i
	}
	slices.SortFunc(desc, func(a, b int) int { return cmpFloat(y[b], y[a]) })
	drop := func(i int) { y[i] = math.Inf(-1) }
	if s.TopK > 0 {
		for _, i := range desc[s.TopK:] {
			drop(i)
		}
	}
	if s.TopP > 0 && s.TopP < 1 {
		sum := 0.0
		p := norm(y)
		for _, i := range desc {
			if sum >= s.TopP {
				drop(i)
			}
			sum += p[i]
		}
	}
	p := norm(y)
	for i := range y {
		if p[i] < s.MinP*p[desc[0]] {
			drop(i)
		}
	}
	return norm(z), norm(y)
}

func cmpFloat(a, b float64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// Weights are whole numbers and uniforms multiples of 1/64, so every sum and product is exact. So the right token is known, also at the borders
// of blocks.
func TestInverseCDF(t *testing.T) {
	t.Parallel()
	eachBackend(t, func(t *testing.T, b *Backend) {
		p := mustProgram(t, b, "inverse CDF", func(in []*graph.Node) []*graph.Node { return []*graph.Node{inverseCDF(in[0], in[1])} })
		for _, vocab := range []int{128, 300} {
			var weights [][]float32
			var uniforms []float32
			var want []int32
			for i := range 40 {
				row, total := make([]float32, vocab), float32(0)
				for j := range row {
					if (j/128+i)%3 != 1 && (j*7+i)%4 != 0 { // whole blocks without weight too
						row[j] = float32((j + i) % 3)
					}
					total += row[j]
				}
				if total == 0 {
					row[vocab-1], total = 1, 1
				}
				u := float32(i) / 64 // exact, as its products are
				if i == 39 {
					u = 1 - 1.0/(1<<24) // the largest there is
				}
				sum, at := float32(0), -1
				for j, w := range row {
					if sum += w; w > 0 && (at < 0 || sum-w <= u*total) {
						at = j
					}
				}
				weights, uniforms, want = append(weights, row), append(uniforms, u), append(want, int32(at))
			}
			out, err := p.Call(weights, uniforms)
			if err != nil {
				t.Fatal(err)
			}
			got, err := Ints(out[0])
			if err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(got, want) {
				t.Errorf("vocabulary %d: %v\nwant %v", vocab, got, want)
			}
		}
	})
}

func TestSamplingCheck(t *testing.T) {
	for _, s := range []Sampling{{Temperature: -1}, {Temperature: math.NaN()}, {TopK: -1}, {TopP: 1.5}, {MinP: -0.1}, {RepetitionPenalty: math.Inf(1)}} {
		if s.Check() == nil {
			t.Errorf("%+v: no error", s)
		}
	}
	if err := (Sampling{}).Check(); err != nil {
		t.Errorf("zero value: %v", err)
	}
}
