package eval

import (
	"maps"
	"slices"
)

// mostGroup is the group of a column whose numerators sum to most, of equal ones the first by name; empty without any.
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
