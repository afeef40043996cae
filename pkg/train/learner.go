package train

import (
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/gomlx/gomlx/core/graph"
	"github.com/gomlx/gomlx/core/tensors"

	"github.com/toolroute/toolroute/pkg/lm"
)

// objective is a loss for the learner. loss builds a scalar from the statistics of a micro-batch's targets and from extra inputs.
// keep selects the statistics that the step returns for the diagnostics.
type objective struct {
	name        string
	temperature float64
	branches    bool // the batches have branches
	loss        func(s TokenStats, extra []*graph.Node) *graph.Node
	keep        func(s TokenStats) []*graph.Node
}

// microBatch is a batch with the extra inputs of the objective. The step that takes it frees them.
type microBatch struct {
	*Batch
	extra []*tensors.Tensor
	pairs *pairSides // for the diagnostics of DPO
}

// learner holds the state of a training run on the device, and the compiled programs that change it. The state is the trained
// weights, Adam's moments and the number of steps taken. If a step has a single micro-batch (fused), one program computes
// everything from the forward pass to the new weights. Otherwise one program adds up the gradients of the micro-batches, and
// another applies them. Not safe for concurrent use.
type learner struct {
	model    *lm.Model
	trained  *lm.Weights // those of the model, or of its adapter
	frozen   *lm.Weights // those of the model if it has an adapter, else nil
	m, v     *lm.Weights // parallel to trained
	steps    int         // optimizer steps taken
	opt      AdamW
	schedule Schedule
	obj      objective

	fused, grad, apply, score *lm.Program
}

// newLearner prepares training of a model: of its adapter if it has one, of all its weights otherwise.
func newLearner(model *lm.Model, opt AdamW, schedule Schedule, obj objective, fused bool) (*learner, error) {
	if err := opt.Check(); err != nil {
		return nil, err
	}
	if err := schedule.Check(); err != nil {
		return nil, err
	}
	l := &learner{model: model, trained: model.Weights, opt: opt.withDefaults(), schedule: schedule, obj: obj}
	if model.Adapter != nil {
		l.trained, l.frozen = model.Adapter.Weights, model.Weights
	}
	var err error
	if l.m, err = zerosLike(l.trained); err != nil {
		return nil, err
	}
	if l.v, err = zerosLike(l.trained); err != nil {
		return nil, err
	}
	for _, p := range []struct {
		program **lm.Program
		name    string
		fn      func(in []*graph.Node) []*graph.Node
		wanted  bool
	}{
		{&l.fused, "step", l.fusedGraph, fused},
		{&l.grad, "gradient", l.gradGraph, !fused},
		{&l.apply, "apply", l.applyGraph, !fused},
		{&l.score, "score", l.scoreGraph, true},
	} {
		if p.wanted {
			if *p.program, err = lm.NewProgram(model.Backend, obj.name+"/"+p.name, p.fn); err != nil {
				return nil, err
			}
		}
	}
	return l, nil
}

func zerosLike(w *lm.Weights) (*lm.Weights, error) {
	var out []*tensors.Tensor
	for _, t := range w.Tensors() {
		out = append(out, tensors.FromShape(t.Shape()))
	}
	return lm.NewWeights(w.Names(), out)
}

// compilations counts the graphs that all programs have compiled so far.
func (l *learner) compilations() int {
	n := 0
	for _, p := range []*lm.Program{l.fused, l.grad, l.apply, l.score} {
		if p != nil {
			n += p.Compilations()
		}
	}
	return n
}

// close frees programs and moments. It does not free the model's weights.
func (l *learner) close() {
	for _, p := range []*lm.Program{l.fused, l.grad, l.apply, l.score} {
		if p != nil {
			p.Close()
		}
	}
	l.m.Free()
	l.v.Free()
}

// weights returns the first arguments of every program that runs the model.
func (l *learner) weights(trained *lm.Weights) []any {
	args := []any{trained}
	if l.frozen != nil {
		args = append(args, l.frozen)
	}
	return args
}

// bind splits a program's inputs into the trained nodes, all parameters by name, and the rest.
func (l *learner) bind(in []*graph.Node) (trained []*graph.Node, p lm.Params, rest []*graph.Node) {
	trained = in[:l.trained.Len()]
	p, rest = lm.BindParams(l.trained.Names(), in)
	if l.frozen != nil {
		rest = p.Bind(l.frozen.Names(), rest)
	}
	return trained, p, rest
}

// stats runs the decoder on the inputs that [Batch.tensors] gives, which come first, and returns the inputs after them too.
func (l *learner) stats(p lm.Params, in []*graph.Node) (TokenStats, []*graph.Node) {
	d := l.model.Decoder()
	inputs, targets, extra := lm.Inputs{IDs: in[0], Positions: in[1], Segments: in[2]}, in[3], in[4:]
	if l.obj.branches {
		inputs.Branches, extra = extra[0], extra[1:]
	}
	logits := d.Logits(p, d.Hidden(p, inputs))
	return NewTokenStats(logits, targets, l.obj.temperature), extra
}

// fusedGraph: trained, frozen, m, v, hyper, batch -> loss, norm, kept statistics, new trained, m, v.
func (l *learner) fusedGraph(in []*graph.Node) []*graph.Node {
	trained, p, rest := l.bind(in)
	n := len(trained)
	m, v, hyper := rest[:n], rest[n:2*n], rest[2*n]
	s, extra := l.stats(p, rest[2*n+1:])
	loss := l.obj.loss(s, extra)
	grads := graph.Gradient(loss, trained...)
	p2, m2, v2, norm := l.opt.Apply(l.trained.Names(), trained, grads, m, v, hyper)
	out := append([]*graph.Node{loss, norm}, l.obj.keep(s)...)
	return append(append(append(out, p2...), m2...), v2...)
}

// gradGraph: trained, frozen, gradient sums, batch -> loss, kept statistics, new sums.
func (l *learner) gradGraph(in []*graph.Node) []*graph.Node {
	trained, p, rest := l.bind(in)
	sums := rest[:len(trained)]
	s, extra := l.stats(p, rest[len(trained):])
	loss := l.obj.loss(s, extra)
	out := append([]*graph.Node{loss}, l.obj.keep(s)...)
	for i, g := range graph.Gradient(loss, trained...) {
		out = append(out, graph.Add(sums[i], g))
	}
	return out
}

// applyGraph: trained, gradients, m, v, hyper -> norm, new trained, m, v.
func (l *learner) applyGraph(in []*graph.Node) []*graph.Node {
	n := l.trained.Len()
	p2, m2, v2, norm := l.opt.Apply(l.trained.Names(), in[:n], in[n:2*n], in[2*n:3*n], in[3*n:4*n], in[4*n])
	return append(append(append([]*graph.Node{norm}, p2...), m2...), v2...)
}

// scoreGraph: trained, frozen, batch without extras -> log-probabilities, entropies, correct.
func (l *learner) scoreGraph(in []*graph.Node) []*graph.Node {
	_, p, rest := l.bind(in)
	s, _ := l.stats(p, rest)
	return []*graph.Node{s.LogProb, s.Entropy, s.Correct}
}

// stepResult describes one optimizer step. kept[i] has the statistics of micro-batch i that the objective keeps, on the host.
type stepResult struct {
	loss, gradNorm, lr float64
	kept               [][][]float32
}

// update takes one optimizer step on the sum of the micro-batches' losses. On an error the state is unchanged, with one exception:
// [ErrNotFinite] is found only after the step was taken. The caller then has to go back to a checkpoint.
func (l *learner) update(micros []microBatch) (stepResult, error) {
	r := stepResult{lr: l.schedule.At(l.steps)}
	hyper := tensors.FromFlatDataAndDimensions(l.opt.Hyper(l.steps+1, r.lr), hyperSize)
	defer lm.Free(hyper)
	var state []*tensors.Tensor
	var err error
	if l.fused != nil {
		if len(micros) != 1 {
			return r, fmt.Errorf("%s: a fused step takes 1 micro-batch, got %d", l.obj.name, len(micros))
		}
		state, err = l.fusedStep(micros[0], hyper, &r)
	} else {
		state, err = l.summedStep(micros, hyper, &r)
	}
	if err != nil {
		return r, err
	}
	n := l.trained.Len()
	for i, w := range []*lm.Weights{l.trained, l.m, l.v} {
		if err := w.Replace(state[i*n : (i+1)*n]); err != nil {
			return r, err
		}
	}
	l.steps++
	if !finite(r.loss) || !finite(r.gradNorm) {
		return r, fmt.Errorf("%s: step %d: loss %v and gradient norm %v are %w: lower the learning rate or lengthen its warm-up", l.obj.name, l.steps, r.loss, r.gradNorm, ErrNotFinite)
	}
	return r, nil
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }

func (l *learner) fusedStep(mb microBatch, hyper *tensors.Tensor, r *stepResult) ([]*tensors.Tensor, error) {
	in := mb.tensors()
	defer lm.Free(append(in, mb.extra...)...)
	out, err := l.fused.Call(append(l.weights(l.trained), l.m, l.v, hyper, in, mb.extra)...)
	if err != nil {
		return nil, err
	}
	kept := len(out) - 2 - 3*l.trained.Len()
	host, err := download(out[:2+kept])
	if err != nil {
		return nil, err
	}
	r.loss, r.gradNorm = float64(host[0][0]), float64(host[1][0])
	r.kept = [][][]float32{host[2:]}
	return out[2+kept:], nil
}

func (l *learner) summedStep(micros []microBatch, hyper *tensors.Tensor, r *stepResult) ([]*tensors.Tensor, error) {
	zeros, err := zerosLike(l.trained)
	if err != nil {
		return nil, err
	}
	sums := zeros.Tensors()
	defer func() { lm.Free(sums...) }()
	for _, mb := range micros {
		in := mb.tensors()
		out, err := l.grad.Call(append(l.weights(l.trained), sums, in, mb.extra)...)
		lm.Free(append(in, mb.extra...)...)
		if err != nil {
			return nil, err
		}
		kept := len(out) - 1 - l.trained.Len()
		host, err := download(out[:1+kept])
		if err != nil {
			return nil, err
		}
		r.loss += float64(host[0][0])
		r.kept = append(r.kept, host[1:])
		lm.Free(sums...)
		sums = out[1+kept:]
	}
	out, err := l.apply.Call(l.trained, sums, l.m, l.v, hyper)
	if err != nil {
		return nil, err
	}
	host, err := download(out[:1])
	if err != nil {
		return nil, err
	}
	r.gradNorm = float64(host[0][0])
	return out[1:], nil
}

// tokenValues are the statistics of a batch's targets, flattened row by row.
type tokenValues struct{ logProb, entropy, correct []float32 }

// scores computes the statistics of a batch's targets under other values of the trained weights; nil means the current ones. It
// changes nothing.
func (l *learner) scores(b *Batch, trained *lm.Weights) (tokenValues, error) {
	if trained == nil {
		trained = l.trained
	}
	in := b.tensors()
	defer lm.Free(in...)
	out, err := l.score.Call(append(l.weights(trained), in)...)
	if err != nil {
		return tokenValues{}, err
	}
	host, err := download(out)
	if err != nil {
		return tokenValues{}, err
	}
	return tokenValues{host[0], host[1], host[2]}, nil
}

// download copies tensors to the host and frees them.
func download(ts []*tensors.Tensor) ([][]float32, error) {
	out := make([][]float32, len(ts))
	for i, t := range ts {
		x, err := lm.Floats(t)
		if err != nil {
			return nil, err
		}
		out[i] = x
	}
	lm.Free(ts...)
	return out, nil
}

// restore sets weights, moments and step to those of a checkpoint.
func (l *learner) restore(step int, ts tensorMap) error {
	known := map[string]bool{}
	for _, name := range l.trained.Names() {
		known["param."+name], known["m."+name], known["v."+name] = true, true, true
	}
	for _, name := range slices.Sorted(maps.Keys(ts)) {
		if !known[name] {
			return fmt.Errorf("the checkpoint has a tensor %q that the model has not: it belongs to another model", name)
		}
	}
	for _, part := range []struct {
		prefix string
		w      *lm.Weights
	}{{"param.", l.trained}, {"m.", l.m}, {"v.", l.v}} {
		if err := restore(part.w, part.prefix, ts); err != nil {
			return err
		}
	}
	l.steps = step
	return nil
}
