package show

import (
	"fmt"
	"strings"

	"github.com/toolroute/toolroute/pkg/eval"
)

// trainedOn says in one line what a learned row was trained on. It is empty for other rows.
func trainedOn(t *eval.Training) string {
	if t == nil {
		return ""
	}
	parts := []string{fmt.Sprintf("training %s %s", plural(len(t.Seeds), "seed"), seedList(t.Seeds))}
	if t.Demonstrations > 0 {
		parts = append(parts, fmt.Sprintf("%d demonstrations of %d %s", t.Demonstrations, len(t.DemoWorlds), plural(len(t.DemoWorlds), "world")))
	}
	if t.Episodes > 0 {
		parts = append(parts, fmt.Sprintf("%d episodes in %d %s", t.Episodes, len(t.RolloutWorlds), plural(len(t.RolloutWorlds), "world")))
	}
	tokens := fmt.Sprintf("%d trained tokens", t.Tokens)
	if t.Processed > 0 {
		tokens += fmt.Sprintf(" (%d processed)", t.Processed)
	}
	return strings.Join(append(parts, tokens), ", ")
}

func plural(n int, noun string) string {
	if n == 1 {
		return noun
	}
	return noun + "s"
}

// seedList lists seeds: "1, 2, 3".
func seedList(seeds []uint64) string {
	var out []string
	for _, s := range seeds {
		out = append(out, fmt.Sprint(s))
	}
	return strings.Join(out, ", ")
}
