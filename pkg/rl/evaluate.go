package rl

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/train"
)

// evaluateAndSave plays the eval sets when it is time, logs the iteration, and makes a checkpoint. The start, iteration 0, is evaluated too
// where the best on val is kept: it may be the best.
func (l *Loop) evaluateAndSave(ctx context.Context, s *train.GRPORun, done int, it iteration) error {
	best := false
	if l.due(done) {
		for _, set := range l.EvalSets {
			for _, temperature := range l.Config.EvalTemperatures {
				p, err := l.evaluate(ctx, set, temperature, done)
				if err != nil {
					return err
				}
				l.state.History = append(l.state.History, p)
				prefix := set.Prefix
				if temperature != 0 {
					prefix += "sampled_"
				}
				for _, v := range p.Values {
					it.metrics = append(it.metrics, train.Metric{Name: prefix + v.Name, Value: v.Value})
				}
				if mean := p.Values[0].Value; set.Chooses && temperature == 0 && (s.Best() == nil || mean >= l.state.Best) {
					best, l.state.Best, l.state.BestAt = true, mean, done
				}
			}
		}
	}
	if done == 0 && !best {
		return nil
	}
	if done > 0 { // a line of step 0 would have no update; the history has the start
		if err := s.Log(it.update, it.metrics, it.timing); err != nil {
			return err
		}
	}
	return s.Save(l.state, best, -l.state.Best)
}

// due says whether the eval sets are played after so many iterations.
func (l *Loop) due(done int) bool {
	if done == 0 {
		return l.Config.KeepBest
	}
	return done == l.Config.Iterations || l.Config.EvalEvery > 0 && done%l.Config.EvalEvery == 0
}

// evaluate plays every task of an eval set once; the mean reward is the first of the values.
func (l *Loop) evaluate(ctx context.Context, set EvalSet, temperature float64, done int) (EvalPoint, error) {
	point := EvalPoint{Iteration: done, Split: set.Split, Temperature: temperature, Episodes: len(set.Tasks)}
	items := make([]rollout.Item, len(set.Tasks))
	for i, t := range set.Tasks {
		items[i] = rollout.Item{Task: t, Attempt: done} // so that one iteration's sampling is not the next one's
	}
	eps, err := l.play(ctx, l.Evaluation, items, temperature, uint64(done))
	if err != nil {
		return point, err
	}
	trs := sound(eps)
	if len(trs) == 0 {
		return point, fmt.Errorf("grpo: none of the %d episodes of %s that were played to evaluate could be played to its end", len(eps), set.Split)
	}
	mean := 0.0
	for i := range trs {
		mean += trs[i].Outcome.Reward.Total / float64(len(trs))
	}
	point.Values = append([]train.Metric{{Name: "reward_mean", Value: mean}}, summarize(trs, l.Columns)...)
	if n := failures(eps); n > 0 {
		point.Values = append(point.Values, train.Metric{Name: "errors", Value: float64(n)})
	}
	return point, nil
}
