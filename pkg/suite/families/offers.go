package families

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/suite/families/toolbox"
	"github.com/toolroute/toolroute/pkg/tool"
)

// With returns the same data set in another view.
func (s *Suite) With(v View, train Training) (*Suite, error) {
	if err := errors.Join(v.Validate(), train.Validate()); err != nil {
		return nil, err
	}
	out := &Suite{cfg: s.cfg, draws: s.draws, view: v, train: train, world: s.world, tasks: map[string][]suite.Task{}}
	for split, tasks := range s.tasks {
		shown := make([]suite.Task, len(tasks))
		for i, t := range tasks {
			t.Offers = out.offers(t)
			if of := split == SFTTrain || split == DPOTrain; of && rng.New(s.cfg.Seed, "families/priced", t.Fact).Float64() < train.RandomPrices {
				var err error
				if t, err = out.repriced(t, trainFactors, s.cfg.Seed); err != nil {
					return nil, err
				}
			}
			shown[i] = t
		}
		out.tasks[split] = shown
	}
	return out, nil
}

// offers are the tools of all paths of a task and some that it has no use for, in random order, at the default prices. Both wordings of an
// underlying task have the same.
func (s *Suite) offers(t suite.Task) []suite.Offer {
	used := map[string]bool{}
	for _, p := range t.Paths {
		for _, c := range p.Calls {
			used[c.Tool] = true
		}
	}
	r := rng.New(s.cfg.Seed, "families/offers", t.Fact)
	var names, others []string
	for _, name := range toolbox.Names() {
		if used[name] || s.view.MaxTools == 0 {
			names = append(names, name)
		} else {
			others = append(others, name)
		}
	}
	r.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	names = append(names, others[:max(0, min(len(others), s.view.MaxTools-len(names)))]...)
	r.Shuffle(len(names), func(i, j int) { names[i], names[j] = names[j], names[i] })
	prices := toolbox.Prices()
	out := make([]suite.Offer, len(names))
	for i, name := range names {
		out[i] = suite.Offer{Tool: name, Price: prices[name]}
	}
	return out
}

// priceVersion is raised when the same seed draws other prices.
const priceVersion = 1

// The factors that a drawn price has to the default one. Training never shows a test's factor.
var (
	trainFactors = []float64{0.4, 0.6, 1, 1.6, 2.5}
	testFactors  = []float64{0.5, 0.75, 1.25, 2}
)

// priceStep is what drawn prices are whole multiples of, in price units.
const priceStep = 0.001

// repriced is a task with a price drawn for each offered tool. The costs of its paths, and with them the gold path, follow. Prices at which two
// paths are the cheapest are drawn again.
func (s *Suite) repriced(t suite.Task, factors []float64, seed uint64) (suite.Task, error) {
	for attempt := range tries {
		r := rng.New(seed, "families/prices", t.Fact, factors[0], attempt)
		out := t
		out.Offers = slices.Clone(t.Offers)
		prices := map[string]tool.Price{}
		for i := range out.Offers {
			p := &out.Offers[i].Price
			f := factors[r.IntN(len(factors))]
			p.Base, p.PerUnit = scaled(p.Base, f), scaled(p.PerUnit, f)
			prices[out.Offers[i].Tool] = *p
		}
		var valid, failing []suite.Path
		for _, p := range t.Paths {
			p.Cost = costOf(p.Calls, prices)
			if p.Fails {
				failing = append(failing, p)
			} else {
				valid = append(valid, p)
			}
		}
		byCost(valid)
		if len(valid) > 1 && valid[0].Cost == valid[1].Cost {
			continue
		}
		out.Paths = append(valid, failing...)
		setGold(&out)
		return out, nil
	}
	return t, fmt.Errorf("task %s: no prices make one path the cheapest", t.ID)
}

func scaled(a price.Amount, factor float64) price.Amount {
	if a == 0 {
		return 0
	}
	return price.Of(math.Max(1, math.Round(a.Float()*factor/priceStep)) * priceStep)
}
