package suite

import (
	"fmt"
	"slices"
	"sort"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Stratified picks n tasks so that every (template, difficulty) keeps its share, in the order of the split; n of 0, or more
// than there are, is all. Which tasks of a stratum are taken depends on the seed alone.
func Stratified(all []Task, n int, seed uint64) []Task {
	if n <= 0 || n >= len(all) {
		return all
	}
	type ranked struct {
		at   int
		rank float64 // position within the stratum, as a share of it
	}
	members := map[string][]int{}
	var names []string
	for i, t := range all {
		k := fmt.Sprint(t.Template, "/", t.Difficulty)
		if members[k] == nil {
			names = append(names, k)
		}
		members[k] = append(members[k], i)
	}
	var order []ranked
	for _, k := range names {
		m := members[k]
		r := rng.New(seed, "eval/sample", k)
		for pos, j := range r.Perm(len(m)) {
			order = append(order, ranked{m[j], (float64(pos) + 0.5) / float64(len(m))})
		}
	}
	sort.SliceStable(order, func(a, b int) bool { return order[a].rank < order[b].rank })
	var at []int
	for _, o := range order[:n] {
		at = append(at, o.at)
	}
	slices.Sort(at)
	out := make([]Task, n)
	for i, j := range at {
		out[i] = all[j]
	}
	return out
}
