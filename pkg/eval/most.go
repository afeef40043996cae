package eval

import (
	"maps"
	"slices"
)

// mostGroup returns the group of a column with the largest sum of numerators. Of equal groups it returns the first by name, and "" if there
// is none.
func mostGroup(cells []Cell, j int) string {
	sums := map[string]float64{}
	for i := range cells {
		for _, e := range cells[i].Episodes {
			if v := e.own[j]; v.group != "" {
				sums[v.group] += v.num
			}
		}
	}
	most := ""
	for _, g := range slices.Sorted(maps.Keys(sums)) {
		if most == "" || sums[g] > sums[most] {
			most = g
		}
	}
	return most
}
