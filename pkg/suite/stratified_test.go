package suite_test

import (
	"fmt"
	"testing"

	"github.com/toolroute/toolroute/pkg/suite"
)

func tasksOf(counts map[string]int) []suite.Task {
	var out []suite.Task
	for _, name := range []string{"a", "b", "c"} {
		for i := range counts[name] {
			out = append(out, suite.Task{ID: fmt.Sprint(name, i), Template: name, Difficulty: 1})
		}
	}
	return out
}

func ExampleStratified() {
	sample := suite.Stratified(tasksOf(map[string]int{"a": 60, "b": 30, "c": 10}), 10, 1)
	count := map[string]int{}
	for _, t := range sample {
		count[t.Template]++
	}
	fmt.Println(count)
	// Output: map[a:6 b:3 c:1]
}

// Every stratum keeps its share to within one task, the order of the split stays, and another seed picks other tasks.
func TestStratified(t *testing.T) {
	all := tasksOf(map[string]int{"a": 40, "b": 25, "c": 7})
	for _, n := range []int{1, 7, 20, 71} {
		got := suite.Stratified(all, n, 3)
		if len(got) != n {
			t.Fatalf("n = %d: %d tasks", n, len(got))
		}
		count := map[string]float64{}
		last := -1
		for _, x := range got {
			count[x.Template]++
			at := 0
			for all[at].ID != x.ID {
				at++
			}
			if at <= last {
				t.Fatalf("n = %d: order of the split lost or a task twice", n)
			}
			last = at
		}
		for name, size := range map[string]float64{"a": 40, "b": 25, "c": 7} {
			if want := float64(n) * size / 72; count[name] < want-1 || count[name] > want+1 {
				t.Errorf("n = %d: %v tasks of stratum %s, want about %.1f", n, count[name], name, want)
			}
		}
	}
	if fmt.Sprint(suite.Stratified(all, 20, 3)) == fmt.Sprint(suite.Stratified(all, 20, 4)) {
		t.Error("two seeds picked the same tasks")
	}
	if len(suite.Stratified(all, 0, 1)) != 72 || len(suite.Stratified(all, 500, 1)) != 72 {
		t.Error("0 and too many must give all tasks")
	}
}
