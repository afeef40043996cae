package rl

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/train"
)

// EvalPoint is how the policy did on an eval set after some iterations. Iteration 0 is the policy that training started from.
type EvalPoint struct {
	Iteration   int            `json:"iteration"`
	Split       string         `json:"split"`
	Temperature float64        `json:"temperature"` // 0 is greedy
	Episodes    int            `json:"episodes"`
	Values      []train.Metric `json:"values"`
}

// Get returns one of the values.
func (p EvalPoint) Get(name string) (float64, bool) {
	return train.StepLog{Metrics: p.Values}.Get(name)
}

// evaluateAndSave plays the eval sets if an evaluation is due, logs the iteration, and writes a checkpoint. done is the number of iterations
// so far. With 0 there is no iteration to log, and a checkpoint only where the start may turn out to be the best.
func (l *Loop) evaluateAndSave(ctx context.Context, s *train.GRPORun, done int, it iterationLog) error {
	best := false
	if l.evalDue(done) {
		values, isBest, err := l.evaluateAll(ctx, done, s.Best() == nil)
		if err != nil {
			return err
		}
		it.metrics, best = append(it.metrics, values...), isBest
	}
	if done == 0 && !best {
		return nil
	}
	if done > 0 { // metrics.jsonl has a line for each update; the history has the start
		if err := s.Log(it.update, it.metrics, it.timing); err != nil {
			return err
		}
	}
	return s.Save(l.state, best, -l.state.Best) // GRPORun minimizes
}

// evalDue reports whether the eval sets are played after so many iterations. The start is evaluated only if it may be kept.
func (l *Loop) evalDue(done int) bool {
	if done == 0 {
		return l.Config.KeepBest
	}
	return done == l.Config.Iterations || l.Config.EvalEvery > 0 && done%l.Config.EvalEvery == 0
}

// evaluateAll plays every eval set at every temperature and adds the points to the history. It returns the figures to log, and whether the
// iteration is the best so far. first says that none has been the best yet.
func (l *Loop) evaluateAll(ctx context.Context, done int, first bool) (values []train.Metric, best bool, err error) {
	for _, set := range l.EvalSets {
		for _, temperature := range l.Config.EvalTemperatures {
			p, err := l.evaluate(ctx, set, temperature, done)
			if err != nil {
				return nil, false, err
			}
			l.state.History = append(l.state.History, p)
			prefix := set.Prefix
			if temperature != 0 {
				prefix += "sampled_"
			}
			for _, v := range p.Values {
				values = append(values, train.Metric{Name: prefix + v.Name, Value: v.Value})
			}
			if mean := p.Values[0].Value; set.SelectsBest && temperature == 0 && (first || mean >= l.state.Best) {
				best, l.state.Best, l.state.BestAt = true, mean, done
			}
		}
	}
	return values, best, nil
}

// evaluate plays every task of an eval set once. The mean reward is the first of the point's values.
func (l *Loop) evaluate(ctx context.Context, set EvalSet, temperature float64, done int) (EvalPoint, error) {
	point := EvalPoint{Iteration: done, Split: set.Split, Temperature: temperature, Episodes: len(set.Tasks)}
	items := make([]rollout.Item, len(set.Tasks))
	for i, t := range set.Tasks {
		items[i] = rollout.Item{Task: t, Attempt: done} // each evaluation samples from random streams of its own
	}
	episodes, err := l.play(ctx, l.Evaluation, items, temperature, uint64(done))
	if err != nil {
		return point, err
	}
	records := completed(episodes)
	if len(records) == 0 {
		return point, fmt.Errorf("grpo: none of the %d episodes of %s that were played to evaluate could be played to its end", len(episodes), set.Split)
	}
	mean := 0.0
	for i := range records {
		mean += records[i].Outcome.Reward.Total / float64(len(records))
	}
	point.Values = append([]train.Metric{{Name: "reward_mean", Value: mean}}, summarize(records, l.Columns)...)
	if n := failures(episodes); n > 0 {
		point.Values = append(point.Values, train.Metric{Name: "errors", Value: float64(n)})
	}
	return point, nil
}
