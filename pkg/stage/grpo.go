package stage

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// grpoState is what a checkpoint keeps beside weights and moments. All randomness is keyed by (seed, iteration), so the
// position is the iteration alone.
type grpoState struct {
	Episodes int64   `json:"episodes"`
	Best     float64 `json:"best"` // mean reward on val of the best iteration so far
	BestAt   int     `json:"best_at"`
	History  []Look  `json:"history"`
}

// grpo trains a policy from its own episodes: the gate first, then iterations of playing k attempts at each of some
// tasks, comparing their rewards within the group, and updating the policy from the very ids that were sampled.
func (e *Env) grpo(ctx context.Context, name string, seed uint64, parent Trained) error {
	r, cfg := e.Config.Recipes[name], e.Config.GRPO
	if err := e.gate(ctx, name, seed); err != nil {
		return err
	}
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key, dir); err != nil {
			return nil, err
		}
		m, err := e.load(r.From, seed)
		if err != nil {
			return nil, err
		}
		l := &grpoLoop{env: e, name: name, seed: seed, cfg: cfg, model: m}
		t, err := l.run(ctx, e.Run.Path(dir))
		if err != nil {
			return nil, err
		}
		history := filepath.Join(dir, historyFile)
		if err := run.WriteFile(e.Run.Path(history), historyCSV(l.state.History)); err != nil {
			return nil, err
		}
		t.Recipe, t.Seed = name, seed
		files, err := e.finish(dir, m, t, parent)
		return append(files, history, filepath.Join(dir, metricsFile)), err
	})
}

// gate asks whether reinforcement learning can work from the recipe's parent; [ErrNoGo] where it says no and is obeyed.
func (e *Env) gate(ctx context.Context, name string, seed uint64) error {
	r := e.Config.Recipes[name]
	p, err := e.Profile(ctx, r.From, seed)
	if err != nil {
		return err
	}
	if !p.Verdict.Go && !r.Override {
		return &noGoError{name, p.Verdict}
	}
	if !p.Verdict.Go {
		e.logOnce("  %s: trained all the same, as recipes.%s.override asks", name, name)
	}
	return nil
}

// grpoLoop is one run of reinforcement learning.
type grpoLoop struct {
	env    *Env
	name   string
	seed   uint64
	cfg    config.GRPO
	model  *lm.Model
	worlds []world     // of the recipe: train tasks are played in them, one an iteration, watched ones in shown
	shown  suite.Suite // of the run, as evaluation plays it
	codec  *chat.Codec
	engine *lm.Engine
	done   func() // closes further worlds
	watch  []watched
	state  grpoState
}

// world is a suite with its train tasks.
type world struct {
	suite suite.Suite
	tasks []suite.Task
}

// watched is a sample of a split that is played now and then.
type watched struct {
	prefix string // of the metrics' names
	split  string
	tasks  []suite.Task
}

func (l *grpoLoop) run(ctx context.Context, dir string) (t Trained, err error) {
	if err := l.open(ctx); err != nil {
		return t, err
	}
	defer l.engine.Close()
	defer l.done()
	update := l.cfg.Update
	update.Seed, update.Loss.Temperature = l.seed, l.cfg.Temperature
	if update.Schedule.Total == 0 {
		update.Schedule.Total = l.cfg.Iterations * update.Steps()
	}
	g, err := train.NewGRPO(l.model, update)
	if err != nil {
		return t, err
	}
	defer g.Close()
	s, found, err := g.Open(train.GRPORunConfig{Dir: dir, Resume: true}, &l.state)
	if err != nil {
		return t, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	if found {
		l.env.Logf("  %s: going on after iteration %d", l.name, s.Updates())
		if err := l.engine.SetWeights(l.model.Weights, l.model.Adapter); err != nil { // those of the checkpoint
			return t, err
		}
	} else if err := l.look(ctx, s, 0, train.GRPOUpdate{}, nil, nil); err != nil {
		return t, err
	}
	bar := run.NewProgress(l.env.Options.Log, fmt.Sprintf("  %s (seed %d):", l.name, l.seed), s.Updates())
	curve := l.env.curveOf(l.name, l.seed)
	lines, err := s.Lines() // of the run before it was resumed
	if err != nil {
		return t, err
	}
	for s.Updates() < l.cfg.Iterations {
		i := s.Updates()
		if t.Stopped = l.cfg.Stop.Stop(lines); t.Stopped != "" {
			t.Stopped = fmt.Sprintf("iteration %d: %s", i, t.Stopped)
			break
		}
		batch, metrics, timing, err := l.collect(ctx, i)
		if err != nil {
			return t, err
		}
		start := time.Now()
		u, err := g.Update(ctx, batch)
		if errors.Is(err, train.ErrNotFinite) && l.cfg.KeepBest && s.Best() != nil { // the weights are lost, the best ones are not
			t.Stopped = fmt.Sprintf("iteration %d: %v", i+1, err)
			break
		}
		if err != nil {
			return t, err
		}
		timing = append(timing, train.Metric{Name: "update_seconds", Value: time.Since(start).Seconds()},
			train.Metric{Name: "train_tokens_per_second", Value: float64(u.ProcessedTokens) / time.Since(start).Seconds()})
		if err := l.engine.SetWeights(l.model.Weights, l.model.Adapter); err != nil {
			return t, err
		}
		if err := l.look(ctx, s, i+1, u, metrics, timing); err != nil {
			return t, err
		}
		lines = append(lines, train.StepLog{Step: i + 1, Metrics: u.Metrics()})
		line := train.StepLog{Metrics: metrics}
		rewardMean, _ := line.Get("reward_mean")
		success, _ := line.Get("success")
		kl := u.Steps[len(u.Steps)-1].KL
		bar.Set(i+1, l.cfg.Iterations, fmt.Sprintf("reward %.3f, solved %.3f, kl %.4f", rewardMean, success, kl))
		curve.grown(i+1 == l.cfg.Iterations)
	}
	if t.Stopped != "" {
		l.env.Logf("  %s: broken off, %s", l.name, t.Stopped)
	}
	l.env.Logf("  %s: %d graphs compiled for generation, the buckets allow %d; %d for updates", l.name, l.engine.Compilations(), l.engine.MaxCompilations(1), g.Compilations())
	t.Steps, t.TrainedTokens, t.Processed, t.Episodes, t.Seconds = s.Updates(), s.TrainedTokens(), s.ProcessedTokens(), l.state.Episodes, s.Seconds()
	if l.cfg.KeepBest && s.Best() != nil {
		t.Kept = &l.state.BestAt
		start := ""
		if l.state.BestAt == 0 {
			start = ", the start: no iteration was better"
		}
		l.env.Logf("  %s: keeping iteration %d, mean reward %.3f on val%s", l.name, l.state.BestAt, l.state.Best, start)
		return t, s.RestoreBest()
	}
	return t, nil
}

func (l *grpoLoop) open(ctx context.Context) (err error) {
	if l.shown, err = l.env.runSuite(ctx); err != nil {
		return err
	}
	if l.codec, err = l.env.codec(); err != nil {
		return err
	}
	suites, done, err := l.env.rolloutWorlds(ctx, l.name)
	if err != nil {
		return err
	}
	l.done = done
	defer func() {
		if err != nil {
			done()
		}
	}()
	for _, s := range suites {
		tasks, err := s.Tasks("train")
		if err != nil {
			return err
		}
		if l.cfg.Prompts > len(tasks) {
			return fmt.Errorf("grpo.prompts is %d, the train split has %d tasks", l.cfg.Prompts, len(tasks))
		}
		l.worlds = append(l.worlds, world{s, tasks})
	}
	for _, w := range []struct{ prefix, split string }{{"val_", l.env.kind.val}, {"heldout_", l.cfg.HeldoutSplit}} {
		if w.split == "" {
			continue
		}
		if !slices.Contains(l.shown.Splits(), w.split) {
			l.env.Logf("  %s: the suite has no split %q to watch", l.name, w.split)
			continue
		}
		tasks, err := l.shown.Tasks(w.split)
		if err != nil {
			return err
		}
		l.watch = append(l.watch, watched{w.prefix, w.split, Stratified(tasks, l.cfg.EvalTasks, l.env.Config.Seed)})
	}
	l.engine, err = lm.NewEngine(l.model, l.env.engineOptions())
	return err
}

// world is the one that an iteration plays in: they take turns.
func (l *grpoLoop) world(iteration int) world { return l.worlds[iteration%len(l.worlds)] }

// draw returns the tasks of an iteration: the next ones of a shuffled pass over the train split of its world. round counts the
// times that tasks were drawn again, from all of them: now and then one comes back.
func (l *grpoLoop) draw(iteration, round, n int) []rollout.Item {
	tasks, turn := l.world(iteration).tasks, iteration/len(l.worlds)
	perEpoch := len(tasks) / l.cfg.Prompts
	epoch, at := turn/perEpoch, turn%perEpoch
	purpose := "grpo/tasks"
	if round > 0 {
		purpose = fmt.Sprintf("grpo/tasks/again/%d/%d", iteration, round)
		at = 0
	}
	order := rng.New(l.seed, purpose, epoch).Perm(len(tasks))[at*l.cfg.Prompts:]
	var items []rollout.Item
	for _, j := range order[:n] {
		for a := range l.cfg.K {
			// The attempt keys the random stream: it differs between iterations, which sample from other weights.
			items = append(items, rollout.Item{Task: tasks[j], Attempt: (iteration*16+round)*l.cfg.K + a})
		}
	}
	return items
}

// played is one episode with its ids.
type played struct {
	t      trajectory.Trajectory
	tokens trajectory.TokenRecord
}

// collect plays the episodes of an iteration and compares their rewards.
func (l *grpoLoop) collect(ctx context.Context, iteration int) (batch []train.Rollout, metrics, timing []train.Metric, err error) {
	start := time.Now()
	var groups [][]played
	var all []played
	resampled := 0
	want := l.cfg.Prompts
	for round := 0; ; round++ {
		eps, err := l.play(ctx, l.world(iteration).suite, l.draw(iteration, round, want), l.cfg.Temperature, uint64(iteration))
		if err != nil {
			return nil, nil, nil, err
		}
		all = append(all, eps...)
		want = 0
		for g := range slices.Chunk(eps, l.cfg.K) {
			if round < l.cfg.Resample && flat(g) {
				want++
				resampled++
				continue
			}
			groups = append(groups, g)
		}
		if want == 0 {
			break
		}
	}
	l.state.Episodes += int64(len(all))
	scaled := train.AdvantageConfig{GroupSize: l.cfg.K, Scale: l.cfg.Scale}
	adv, trained, err := train.Advantages(rewardsOf(slices.Concat(groups...)), scaled)
	if err != nil {
		return nil, nil, nil, err
	}
	// What the policy earns is told of all that it played, as success and spend are; without the groups that were drawn again
	// the mean would lean to tasks that are solved now and then.
	_, earned, err := train.Advantages(rewardsOf(all), scaled)
	if err != nil {
		return nil, nil, nil, err
	}
	distinct := 0.0
	for gi, g := range groups {
		seen := map[string]bool{}
		for pi, p := range g {
			if p.failed() {
				continue // neither its group's mean nor the loss has it
			}
			seen[fmt.Sprint(p.tokens.IDs)] = true
			row := train.Rollout{ID: p.t.EpisodeID, Group: fmt.Sprintf("%d/%d", iteration, gi), IDs: p.tokens.IDs, LogProbs: p.tokens.LogProbs,
				Mask: make([]uint8, len(p.tokens.Mask)), Advantage: adv[gi*l.cfg.K+pi], Truncated: p.t.Outcome.Truncated}
			for i, sampled := range p.tokens.Mask {
				if sampled {
					row.Mask[i] = 1
				}
			}
			batch = append(batch, row)
		}
		distinct += float64(len(seen)) / float64(max(1, len(g)-failures(g)))
	}
	seconds := time.Since(start).Seconds()
	tokens := 0
	trs := sound(all)
	for _, p := range all {
		for _, m := range p.tokens.Mask {
			if m {
				tokens++
			}
		}
	}
	metrics = append([]train.Metric{{Name: "reward_mean", Value: earned.RewardMean}, {Name: "reward_std", Value: earned.RewardStd}}, summarize(trs, l.env)...)
	// These two are of the groups that are trained on, resampled_groups counts the others.
	metrics = append(metrics, train.Metric{Name: "distinct_per_group", Value: distinct / float64(len(groups))}, train.Metric{Name: "zero_variance_groups", Value: trained.ZeroVarianceShare},
		train.Metric{Name: "resampled_groups", Value: float64(resampled)})
	if n := failures(all); n > 0 {
		metrics = append(metrics, train.Metric{Name: "errors", Value: float64(n)})
		l.env.Logf("  %s: %d of the %d episodes of iteration %d could not be played on and are left out", l.name, n, len(all), iteration+1)
	}
	if len(batch) < max(1, l.cfg.Update.Minibatches) {
		return nil, nil, nil, fmt.Errorf("grpo: iteration %d has %d episodes to train on, the others could not be played on", iteration+1, len(batch))
	}
	timing = append(timing, train.Metric{Name: "rollout_seconds", Value: seconds}, train.Metric{Name: "generate_tokens_per_second", Value: float64(tokens) / seconds})
	for _, name := range toolNames(trs) {
		if s, n := toolSeconds(trs, name); n > 0 {
			timing = append(timing, train.Metric{Name: "tool_seconds_" + name, Value: s / float64(n)})
		}
	}
	return batch, metrics, timing, nil
}

// failed reports an episode that could not be played on: a tool or the policy broke down, which says nothing of what it did.
func (p played) failed() bool { return p.t.End == trajectory.Error }

// failures counts the episodes that could not be played on.
func failures(eps []played) (n int) {
	for _, p := range eps {
		if p.failed() {
			n++
		}
	}
	return n
}

// sound are the records of the other ones.
func sound(eps []played) (trs []trajectory.Trajectory) {
	for _, p := range eps {
		if !p.failed() {
			trs = append(trs, p.t)
		}
	}
	return trs
}

// rewardsOf are the rewards of episodes, as [train.Advantages] takes them: none for one that could not be played on.
func rewardsOf(eps []played) [][]float64 {
	out := make([][]float64, len(eps))
	for i, p := range eps {
		out[i] = []float64{p.t.Outcome.Reward.Total}
		if p.failed() {
			out[i][0] = math.NaN()
		}
	}
	return out
}

// flat reports a group that training would give no advantage.
func flat(g []played) bool {
	_, s, err := train.Advantages(rewardsOf(g), train.AdvantageConfig{GroupSize: len(g)})
	return err == nil && s.ZeroVariance[0]
}

// play plays items with the policy as it is, with a temperature of 0 greedily.
func (l *grpoLoop) play(ctx context.Context, s suite.Suite, items []rollout.Item, temperature float64, version uint64) ([]played, error) {
	pol := l.env.sampler(l.name, l.engine, l.codec, temperature)
	decoding := "sampled"
	if temperature == 0 {
		decoding = "greedy"
	}
	out := make([]played, len(items))
	_, err := rollout.Run(ctx, s, pol, items, rollout.Options{Seed: l.seed, Slots: l.env.Config.Engine.Slots, Episode: l.env.Config.Episode, Reward: l.env.Config.Reward,
		Decoding: decoding, Temperature: temperature, PolicyVersion: version, MaxErrors: l.env.Config.MaxErrors,
		Each: func(i int, t trajectory.Trajectory, tokens *trajectory.TokenRecord) error {
			if t.End == trajectory.Error {
				out[i].t = t
				return nil
			}
			if tokens == nil || len(tokens.IDs) == 0 {
				return fmt.Errorf("episode %s has no tokens: its prompt does not fit episode.max_context %d", t.EpisodeID, l.env.Config.Episode.MaxContext)
			}
			out[i] = played{t, *tokens}
			return nil
		}})
	return out, err
}

// look plays the watched splits when it is time, logs the iteration, and makes a checkpoint. The start, iteration 0, is looked at
// too where the best on val is kept: it may be the best.
func (l *grpoLoop) look(ctx context.Context, s *train.GRPORun, done int, u train.GRPOUpdate, metrics, timing []train.Metric) error {
	best := false
	if done == l.cfg.Iterations || done == 0 && l.cfg.KeepBest || l.cfg.EvalEvery > 0 && done%l.cfg.EvalEvery == 0 {
		for _, w := range l.watch {
			for _, temperature := range l.cfg.EvalTemperatures {
				seen, err := l.watchOnce(ctx, w, temperature, done)
				if err != nil {
					return err
				}
				l.state.History = append(l.state.History, Look{Iteration: done, Split: w.split, Temperature: temperature, Episodes: len(w.tasks), Values: seen})
				prefix := w.prefix
				if temperature != 0 {
					prefix += "sampled_"
				}
				for _, v := range seen {
					metrics = append(metrics, train.Metric{Name: prefix + v.Name, Value: v.Value})
				}
				if mean := seen[0].Value; w.prefix == "val_" && temperature == 0 && (s.Best() == nil || mean >= l.state.Best) {
					best, l.state.Best, l.state.BestAt = true, mean, done
				}
			}
		}
	}
	if done == 0 && !best {
		return nil
	}
	if done > 0 { // a line of step 0 would have no update; the history has the start
		if err := s.Log(u, metrics, timing); err != nil {
			return err
		}
	}
	return s.Save(l.state, best, -l.state.Best)
}

// watchOnce plays a watched sample once a task; the mean reward comes first.
func (l *grpoLoop) watchOnce(ctx context.Context, w watched, temperature float64, done int) ([]train.Metric, error) {
	items := make([]rollout.Item, len(w.tasks))
	for i, t := range w.tasks {
		items[i] = rollout.Item{Task: t, Attempt: done} // so that one iteration's sampling is not the next one's
	}
	eps, err := l.play(ctx, l.shown, items, temperature, uint64(done))
	if err != nil {
		return nil, err
	}
	trs := sound(eps)
	if len(trs) == 0 {
		return nil, fmt.Errorf("grpo: none of the %d watched episodes of %s could be played to its end", len(eps), w.split)
	}
	mean := 0.0
	for i := range trs {
		mean += trs[i].Outcome.Reward.Total / float64(len(trs))
	}
	seen := append([]train.Metric{{Name: "reward_mean", Value: mean}}, summarize(trs, l.env)...)
	if n := failures(eps); n > 0 {
		seen = append(seen, train.Metric{Name: "errors", Value: float64(n)})
	}
	return seen, nil
}

// summarize are the figures of some episodes that an iteration logs.
func summarize(trs []trajectory.Trajectory, e *Env) []train.Metric {
	var solved, spend, ratioSpend, ratioOptimal, actions, invalid, truncated, calls float64
	mix := map[string]float64{}
	for i := range trs {
		t := &trs[i]
		spend += t.Outcome.Spend.Float()
		if t.Outcome.Verified {
			solved++
			ratioSpend += t.Outcome.Spend.Float()
			ratioOptimal += t.Task.OptimalCost.Float()
		}
		if t.Outcome.Truncated {
			truncated++
		}
		for _, turn := range t.Turns {
			actions++
			if turn.Invalid() {
				invalid++
			} else if turn.Called() { // one that a hard budget refused is no call
				mix[turn.Action.Tool]++
				calls++
			}
		}
	}
	n := float64(len(trs))
	out := []train.Metric{{Name: "success", Value: solved / n}, {Name: "spend", Value: spend / n},
		{Name: "format_valid", Value: 1 - invalid/max(1, actions)}, {Name: "truncated", Value: truncated / n}}
	if ratioOptimal > 0 {
		out = append(out, train.Metric{Name: "cost_ratio", Value: ratioSpend / ratioOptimal})
	}
	for _, name := range toolNames(trs) {
		out = append(out, train.Metric{Name: "tool_mix_" + name, Value: mix[name] / max(1, calls)})
	}
	for _, c := range e.kind.columns {
		if c.Ratio == nil || c.Decoding != "" || c.MostBy != nil { // what a constant choice earns is no figure of training
			continue
		}
		var num, den float64
		for i := range trs {
			a, b := c.Ratio(&trs[i])
			num, den = num+a, den+b
		}
		if den > 0 {
			out = append(out, train.Metric{Name: c.Name, Value: num / den})
		}
	}
	return out
}

// toolNames lists the tools that were called, in a fixed order.
func toolNames(trs []trajectory.Trajectory) []string {
	var out []string
	for i := range trs {
		for _, turn := range trs[i].Turns {
			if turn.Called() && !slices.Contains(out, turn.Action.Tool) {
				out = append(out, turn.Action.Tool)
			}
		}
	}
	slices.SortFunc(out, strings.Compare)
	return out
}

func toolSeconds(trs []trajectory.Trajectory, name string) (seconds float64, n int) {
	for i := range trs {
		for _, turn := range trs[i].Turns {
			if turn.Called() && turn.Action.Tool == name {
				seconds += turn.ToolTime
				n++
			}
		}
	}
	return seconds, n
}
