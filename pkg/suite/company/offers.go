package company

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
)

// priceLists are what a task with random offers may cost, in the order of Tools. They are few, so that they recur.
var priceLists = [][4]float64{{1, 2, 5, 0.5}, {1, 5, 2, 0.5}, {2, 1, 4, 1}, {4, 2, 1, 0.5}, {0.5, 3, 3, 1}}

// randomOffers draws one of the price lists, and tools in random order: all that are needed, the others more often than not.
func randomOffers(r *rand.Rand, lists [][4]float64, need []string) []suite.Offer {
	list := lists[r.IntN(len(lists))]
	var offers []suite.Offer
	for i, name := range Tools {
		if slices.Contains(need, name) || r.IntN(10) < 7 {
			o := suite.Offer{Tool: name}
			o.Price.Base = price.Of(list[i])
			offers = append(offers, o)
		}
	}
	r.Shuffle(len(offers), func(a, b int) { offers[a], offers[b] = offers[b], offers[a] })
	return offers
}

// randomize gives a share of the train tasks (Options.RandomOffers) tools and prices of their own. Which tasks and which offers
// depends on the world's seed and the task alone, so that two suites on one data set agree. The gold path stays the cheapest at
// any prices and among any tools that hold its own (see CheckCheapest); its cost and the budget are computed anew.
func (s *Suite) randomize() {
	for i := range s.tasks[Train] {
		t := &s.tasks[Train][i]
		if len(t.Offers) > 0 {
			continue
		}
		if r := rng.New(s.opt.Seed, "company random offers", t.ID); r.Float64() < s.opt.RandomOffers {
			t.Offers = randomOffers(r, priceLists, t.Combination)
			s.reprice(t)
		}
	}
}

// At returns the tasks at other prices. All tools have their own names and stand in their usual order. A tool that is not in prices keeps
// its usual price. The optimal cost and the budget are computed anew. Ids get a suffix (see Origin) and the tasks get another split, so
// that their episodes differ from those at the usual prices; everything else is the same. The gold path stays the cheapest, because no set
// of tools that lacks one of its tools answers the task (see CheckCheapest). That does not hold for tasks of the stratum two_source, so At
// refuses them.
func (s *Suite) At(prices map[string]price.Amount, split string, tasks []suite.Task) ([]suite.Task, error) {
	opt := s.opt
	opt.Prices = maps.Clone(s.opt.Prices)
	for _, name := range slices.Sorted(maps.Keys(prices)) {
		if !slices.Contains(Tools, name) {
			return nil, fmt.Errorf("company: prices: no tool is named %q; the tools are %v", name, Tools)
		}
		if prices[name] <= 0 {
			return nil, fmt.Errorf("company: prices: %s must have a price above 0", name)
		}
		opt.Prices[name] = prices[name]
	}
	if err := opt.budgets(); err != nil {
		return nil, err
	}
	out := slices.Clone(tasks)
	for i := range out {
		t := &out[i]
		*t, _ = unmasked(*t)
		if t.HasTag(TagTwoSource) {
			return nil, fmt.Errorf("company: task %s: its gold path depends on the prices it was made for", t.ID)
		}
		t.ID, t.Split, t.Offers = t.ID+shiftedMark, split, opt.offers()
		s.reprice(t)
	}
	return out, nil
}

const shiftedMark = "@prices"

// Origin is the id of the task that At changed the prices of; ok is false for the id of a task at its usual prices.
func Origin(id string) (origin string, ok bool) {
	if n := len(id) - len(shiftedMark); n > 0 && id[n:] == shiftedMark {
		return id[:n], true
	}
	return id, false
}

// PriceList writes the prices that a task is offered, in the order of Tools: "sql_query 1, doc_search 2, ...". Empty for a task
// without offers of its own.
func PriceList(t suite.Task) string {
	t, _ = unmasked(t)
	var out []string
	for _, name := range Tools {
		for _, o := range t.Offers {
			if o.Tool == name {
				out = append(out, fmt.Sprintf("%s %v", name, o.Price.Base))
			}
		}
	}
	return strings.Join(out, ", ")
}
