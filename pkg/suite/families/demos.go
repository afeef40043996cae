package families

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
)

// The kinds of demonstrations. All are of the split sft_train.
const (
	DemoRandom   = "random"   // any valid path of each task, each as likely: it knows nothing of cost
	DemoCheapest = "cheapest" // the cheapest path of each task
	DemoBase     = "base"     // any path of the tasks that one call does: the format and single calls
	DemoRecovery = "recovery" // as random, but a share of the tasks that have a failing attempt makes it first, and then goes on the right way
)

// DemonstrationKinds lists them.
func DemonstrationKinds() []string { return []string{DemoRandom, DemoCheapest, DemoBase, DemoRecovery} }

// Demonstrations implements suite.Suite, in an order that the seed shuffles.
func (s *Suite) Demonstrations(ctx context.Context, kind string, seed uint64) ([]suite.Demonstration, error) {
	if !slices.Contains(DemonstrationKinds(), kind) {
		return nil, fmt.Errorf("suite %s has no demonstrations of kind %q: want one of %s", Name, kind, strings.Join(DemonstrationKinds(), ", "))
	}
	out := s.demonstrations(s.tasks[SFTTrain], kind, seed)
	r := rng.New(seed, "families/demonstrations", kind)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out, ctx.Err()
}

// demonstrations are those of a kind on some tasks, in their order.
func (s *Suite) demonstrations(tasks []suite.Task, kind string, seed uint64) []suite.Demonstration {
	var out []suite.Demonstration
	for _, t := range tasks {
		if kind == DemoBase && t.Structure != groupSingle && t.Structure != groupPath {
			continue
		}
		calls := t.GoldPath
		if kind != DemoCheapest {
			calls = s.anyPath(t, seed)
		}
		if kind == DemoRecovery && rng.New(seed, "families/recovery", t.ID).Float64() < s.train.Recovery {
			if fails := failing(t); fails != nil {
				calls = recovered(t, fails[0])
			}
		}
		out = append(out, suite.Demonstration{Task: t, Calls: s.thinking(calls)})
	}
	return out
}

// anyPath is a valid path of a task, each as likely but for the optimal share.
func (s *Suite) anyPath(t suite.Task, seed uint64) []suite.Call {
	r := rng.New(seed, "families/path", t.ID)
	if r.Float64() < s.cfg.OptimalShare {
		return t.GoldPath
	}
	valid := len(t.Paths) - len(failing(t))
	return t.Paths[r.IntN(valid)].Calls
}

// failing are a task's attempts that fail.
func failing(t suite.Task) []suite.Path {
	i := slices.IndexFunc(t.Paths, func(p suite.Path) bool { return p.Fails })
	if i < 0 {
		return nil
	}
	return t.Paths[i:]
}

// recovered is the cheapest path with an attempt's failing call before the call that does the same.
func recovered(t suite.Task, attempt suite.Path) []suite.Call {
	n := len(attempt.Calls) - 2 // before the call that fails, and finish
	return slices.Concat(attempt.Calls[:n+1], t.GoldPath[n:])
}

// thinking leaves thoughts out where the view has none.
func (s *Suite) thinking(calls []suite.Call) []suite.Call {
	if s.train.Thoughts {
		return calls
	}
	out := slices.Clone(calls)
	for i := range out {
		out[i].Thought = ""
	}
	return out
}

// The kinds of preferences. All are of the split dpo_train, and leave the held-out families out.
const (
	// PairsUnbalanced prefers the cheapest path of a task to each pricier one and to each attempt that fails.
	PairsUnbalanced = "unbalanced"
	// PairsBalanced takes as many of these of both directions of a family, and adds pairs that prefer the right way to a guess after a call
	// that failed.
	PairsBalanced = "balanced"
)

// PairKinds lists them.
func PairKinds() []string { return []string{PairsUnbalanced, PairsBalanced} }

// Preferences implements suite.Preferrer, in an order that the seed shuffles.
func (s *Suite) Preferences(ctx context.Context, kind string, seed uint64) ([]suite.Preference, error) {
	if !slices.Contains(PairKinds(), kind) {
		return nil, fmt.Errorf("suite %s has no preferences of kind %q: want one of %s", Name, kind, strings.Join(PairKinds(), ", "))
	}
	pairs := s.pairs(s.tasks[DPOTrain])
	if kind == PairsBalanced {
		pairs = append(balanced(pairs, seed), s.recoveryPairs(s.tasks[DPOTrain])...)
	}
	out := make([]suite.Preference, len(pairs))
	for i, p := range pairs {
		out[i] = suite.Preference{Task: p.task, Chosen: s.thinking(p.chosen), Rejected: s.thinking(p.rejected)}
	}
	r := rng.New(seed, "families/preferences", kind)
	r.Shuffle(len(out), func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out, ctx.Err()
}

// pair is a preference with what it is about.
type pair struct {
	task             suite.Task
	chosen, rejected []suite.Call
	family           string // of the first call that differs
	cheaper          bool   // the chosen call is of the family's cheaper tool
	correctness      bool   // the rejected path fails
}

// pairs prefers each task's cheapest path to its other ones. Of paths that first differ in the same two calls, the first one counts.
func (s *Suite) pairs(tasks []suite.Task) []pair {
	var out []pair
	gap := price.Of(s.cfg.Pairs.MinCostGap)
	for _, t := range tasks {
		known := map[string]bool{}
		for _, p := range t.Paths[1:] {
			if !p.Fails && p.Cost-t.OptimalCost < gap || len(known) == s.cfg.Pairs.MaxPerTask {
				continue
			}
			at := firstDifference(t.GoldPath, p.Calls)
			chosen, rejected := t.GoldPath[at], p.Calls[at]
			family, cheaper := direction(chosen.Tool)
			key := fmt.Sprint(at, chosen.Tool, rejected.Tool)
			if known[key] || family == "" || slices.Contains(s.cfg.Pairs.Heldout, family) {
				continue
			}
			known[key] = true
			out = append(out, pair{t, t.GoldPath, p.Calls, family, cheaper, p.Fails})
		}
	}
	return out
}

// recoveryPairs prefer the right way to a guess, after a call that failed.
func (s *Suite) recoveryPairs(tasks []suite.Task) []pair {
	var out []pair
	for _, t := range tasks {
		for _, p := range failing(t) {
			chosen := recovered(t, p)
			family, cheaper := direction(chosen[firstDifference(chosen, p.Calls)].Tool)
			if !slices.Contains(s.cfg.Pairs.Heldout, family) {
				out = append(out, pair{t, chosen, p.Calls, family, cheaper, true})
			}
		}
	}
	return out
}

func firstDifference(a, b []suite.Call) int {
	i := 0
	for i < min(len(a), len(b))-1 && a[i].Tool == b[i].Tool && string(a[i].Args) == string(b[i].Args) {
		i++
	}
	return i
}

// direction is the family of a tool, and whether it is its cheaper one.
func direction(name string) (family string, cheaper bool) {
	for _, f := range Families() {
		if name == f.Cheaper || name == f.Pricier {
			return f.Name, name == f.Cheaper
		}
	}
	return "", false
}

// balanced keeps as many pairs of each direction of a family as the rarer one has, chosen at random, in their order.
func balanced(pairs []pair, seed uint64) []pair {
	type side struct {
		family  string
		cheaper bool
	}
	at := map[side][]int{}
	for i, p := range pairs {
		k := side{p.family, p.cheaper}
		at[k] = append(at[k], i)
	}
	var kept []int
	for _, f := range Families() {
		n := min(len(at[side{f.Name, true}]), len(at[side{f.Name, false}]))
		for _, cheaper := range []bool{true, false} {
			of := slices.Clone(at[side{f.Name, cheaper}])
			rng.New(seed, "families/balanced", f.Name, cheaper).Shuffle(len(of), func(i, j int) { of[i], of[j] = of[j], of[i] })
			kept = append(kept, of[:n]...)
		}
	}
	slices.Sort(kept)
	out := make([]pair, len(kept))
	for i, k := range kept {
		out[i] = pairs[k]
	}
	return out
}
