package stage

import (
	"cmp"
	"slices"

	"github.com/toolroute/toolroute/pkg/eval"
)

// training sums up what the policies of a method, with their ancestors, were trained on: mean counts over the given training seeds, and the
// seeds of all worlds that any of them saw.
func (e *Env) training(method string, seeds []uint64) (eval.Training, bool) {
	var out eval.Training
	for _, name := range e.Config.Train {
		if method == "" || e.Config.Recipes[name].Method != method {
			continue
		}
		for _, seed := range e.Config.SeedsOf(name) {
			t, err := e.Result(name, seed)
			if err != nil || !slices.Contains(seeds, seed) {
				continue
			}
			out.Seeds = append(out.Seeds, seed)
			out.Tokens += t.TotalTokens
			out.Processed += t.TotalProcessed
			out.Demonstrations += int64(t.TotalDemos)
			out.Episodes += t.TotalEpisodes
			out.WallSeconds += t.TotalSeconds
			imitated, played := e.worldsOf(cmp.Or(t.Chosen, name))
			out.DemoWorlds, out.RolloutWorlds = together(out.DemoWorlds, imitated), together(out.RolloutWorlds, played)
		}
		break
	}
	n := int64(len(out.Seeds))
	if n == 0 {
		return out, false
	}
	out.Tokens, out.Processed, out.Demonstrations, out.Episodes, out.WallSeconds = out.Tokens/n, out.Processed/n, out.Demonstrations/n, out.Episodes/n, out.WallSeconds/float64(n)
	return out, true
}

// worldsOf returns the seeds of the worlds whose demonstrations a recipe and its ancestors imitate, and the seeds of the worlds that they play in.
func (e *Env) worldsOf(name string) (imitated, played []uint64) {
	line, err := e.Config.Lineage(name)
	if err != nil {
		return nil, nil
	}
	further := func(from, n int) []uint64 {
		var out []uint64
		for i := from; i < from+n && e.Definition.ExtraWorldSeed != nil; i++ {
			out = append(out, e.Definition.ExtraWorldSeed(e.Config.Seed, i))
		}
		return out
	}
	own := []uint64{e.Config.Seed}
	for _, n := range line {
		r := e.Config.Recipes[n]
		switch {
		case !algorithmOf(r).gated:
			imitated = together(imitated, append(own, further(0, r.Worlds)...))
		case r.Worlds > 0:
			played = together(played, further(firstRollout, r.Worlds))
		default:
			played = together(played, own)
		}
	}
	return imitated, played
}

// together appends the seeds of more that to lacks.
func together(to, more []uint64) []uint64 {
	for _, s := range more {
		if !slices.Contains(to, s) {
			to = append(to, s)
		}
	}
	return to
}
