package chain

import (
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/rng"
)

// Entities are named by one word of each list. All words are common, distinct, lower case and in no question, so that a
// word-level tokenizer trained on the train split spells every name of the test.
var (
	firstWords = strings.Fields(`amber brass coral crimson dusty eager early ember fancy foggy gentle golden hazel hidden icy ivory
		jolly lemon lively lunar mellow misty noble olive pale patient polar proud quiet rapid rusty silent silver sleepy snowy solar
		sturdy velvet violet winter`)
	secondWords = strings.Fields(`badger beacon bridge canyon castle cedar cliff comet cottage dolphin eagle falcon forest garden glacier
		harbor heron island kettle lantern lizard maple meadow mill otter owl pebble pine planet raven river rocket saddle salmon tiger
		tower valley wagon walnut willow`)
	allEntities = len(firstWords) * len(secondWords)
)

// draw draws a value: first its length, then its digits, so that short values are as frequent as long ones.
func (c Config) draw(r *rand.Rand) int64 {
	n := c.MinDigits + r.IntN(c.MaxDigits-c.MinDigits+1)
	low := int64(1)
	for range n - 1 {
		low *= 10
	}
	return low + r.Int64N(9*low)
}

// fits reports whether the answer is one that tasks may have: positive and short enough.
func (c Config) fits(answer int64) bool { return answer > 0 && digits(answer) <= c.MaxAnswerDigits }

// makeTable gives every name a value.
func makeTable(cfg Config) (names []string, table map[string]int64) {
	table = make(map[string]int64, allEntities)
	for _, a := range firstWords {
		for _, b := range secondWords {
			names = append(names, a+" "+b)
		}
	}
	for _, name := range names {
		table[name] = cfg.draw(rng.New(cfg.Seed, "chain/value", name))
	}
	return names, table
}

// deal divides the names among the splits. Every word occurs in a name of train: a name stays in train if one of its words would occur in no
// other name of train.
func deal(cfg Config, names []string) map[string][]string {
	shuffled := slices.Clone(names)
	rng.New(cfg.Seed, "chain/entities").Shuffle(len(shuffled), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
	left := map[string]int{}
	for _, n := range names {
		for _, w := range strings.Fields(n) {
			left[w]++
		}
	}
	out := map[string][]string{}
	for _, n := range shuffled {
		split := Train
		switch {
		case len(out[Test]) < cfg.TestEntities:
			split = Test
		case len(out[Val]) < cfg.ValEntities:
			split = Val
		}
		w := strings.Fields(n)
		if split != Train && (left[w[0]] == 1 || left[w[1]] == 1) {
			split = Train
		}
		if split != Train {
			left[w[0]]--
			left[w[1]]--
		}
		out[split] = append(out[split], n)
	}
	return out
}
