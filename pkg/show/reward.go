package show

import (
	"context"
	"fmt"
	"slices"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/stage"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// outcomes are the cases that explain the reward, for a task whose optimal cost is 2.
var outcomes = []struct {
	what               string
	correct, evidenced bool
	spend              float64
	invalid            int
}{
	{"right at the optimal cost", true, true, 2, 0},
	{"right at twice the optimal cost", true, true, 4, 0},
	{"right at six times the optimal cost", true, true, 12, 0},
	{"right at the optimal cost after one invalid action", true, true, 2, 1},
	{"right, but no observation showed it: a guess", true, false, 2, 0},
	{"wrong, having spent nothing", false, false, 0, 0},
	{"wrong, having called everything", false, false, 12, 0},
	{"wrong after one invalid action", false, false, 2, 1},
}

func (e view) rewardOf(correct, evidenced bool, spend float64, invalid int) float64 {
	t := trajectory.Trajectory{End: trajectory.Finished, Task: trajectory.Task{OptimalCost: price.Of(2)},
		Outcome: trajectory.Outcome{Correct: correct, Evidenced: evidenced, Spend: price.Of(spend), Invalid: invalid}}
	reward.Apply(e.Config.Reward, &t)
	return t.Outcome.Reward.Total
}

// RewardRule states the reward with the settings' coefficients and works it out for typical episodes.
func RewardRule(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	c := e.Config.Reward
	evidence := "the answer equals gold"
	if c.RequireEvidence {
		evidence += " and every value it rests on was seen in an observation"
	}
	var lines [][]string
	for _, o := range outcomes {
		lines = append(lines, []string{o.what, fmt.Sprintf("%g", o.spend), fmt.Sprintf("%.3f", e.rewardOf(o.correct, o.evidenced, o.spend, o.invalid))})
	}
	return text("$$r = c\\,(%g + %g \\min(1, \\mathrm{optimal}/\\mathrm{spend})) - %g \\min(\\mathrm{invalid}, %d) - %g\\,\\mathrm{calls}$$\n\nc is 1 if %s, else 0. For a task whose optimal cost is 2:\n\n%s",
		c.Correct, c.Efficiency, c.Format, c.MaxInvalid, c.Call, evidence, grid(1, []string{"episode", "spend", "reward"}, lines)), nil
}

// RewardCurve draws the reward of a right and of a wrong answer against what was spent.
func RewardCurve(_ context.Context, of *stage.Env) ([]Shown, error) {
	e := view{of}
	right, wrong := report.Line{Name: "right answer"}, report.Line{Name: "wrong answer"}
	for i := range 61 {
		ratio := 0.5 + float64(i)/12
		right.X, right.Y = append(right.X, ratio), append(right.Y, e.rewardOf(true, true, 2*ratio, 0))
		wrong.X, wrong.Y = append(wrong.X, ratio), append(wrong.Y, e.rewardOf(false, false, 2*ratio, 0))
	}
	png, err := report.Picture{Name: "reward_rule", Title: "Reward against spend", Subtitle: "No invalid action. Cost matters only where the answer is right.",
		Panels: []report.Panel{{X: "spend / optimal cost", Y: "reward", Lines: []report.Line{right, wrong}}}}.PNG()
	if err != nil {
		return nil, err
	}
	return e.picture("reward_rule", png)
}

// Profiles samples attempts at training tasks with each of the named policies, and shows their rewards and the gate's verdict. The gates of
// the recipes that start from these policies decide by these profiles. Policies that are not trained yet are trained first.
func Profiles(names ...string) Exhibit {
	return func(ctx context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		byPolicy, err := e.profilesOf(ctx, names)
		if err != nil {
			return nil, err
		}
		profiles := slices.Concat(byPolicy...)
		var lines [][]string
		for _, p := range profiles {
			a, verdict := p.Of.All, "no-go"
			if p.Verdict.Go {
				verdict = "go"
			}
			lines = append(lines, []string{p.Name, verdict, fmt.Sprint(a.Groups), fmt.Sprint(p.Of.K), fmt.Sprintf("%.3f", a.Success), fmt.Sprintf("%.3f", a.PassK),
				fmt.Sprintf("%.3f", a.Mixed), fmt.Sprintf("%.3f", a.FormatValid), fmt.Sprintf("%.3f", a.Guesses), fmt.Sprintf("%.3f ± %.3f", a.RewardMean, a.RewardStd)})
		}
		png, err := report.ProfilePNG(profiles)
		if err != nil {
			return nil, err
		}
		drawn, err := e.picture("reward_profile", png)
		return append(text("%s", grid(2, []string{"policy", "gate", "tasks", "k", "success", "pass@k", "mixed groups", "valid actions", "right guesses", "reward"}, lines)), drawn...), err
	}
}

// profilesOf returns, for each of the policies, the profiles that gates decide by.
func (e view) profilesOf(ctx context.Context, names []string) ([][]report.Profile, error) {
	var out [][]report.Profile
	for _, name := range names {
		if err := e.TrainRecipe(ctx, name, e.Config.TrainSeeds[0]); err != nil {
			return nil, err
		}
		made, err := e.ProfilesFor(ctx, name, e.Config.TrainSeeds[0])
		if err != nil {
			return nil, err
		}
		var of []report.Profile
		for _, p := range made {
			of = append(of, p.Reported())
		}
		out = append(out, of)
	}
	return out, nil
}

// ProfileFindings says what the profiles mean for reinforcement learning.
func ProfileFindings(names ...string) Exhibit {
	return func(ctx context.Context, of *stage.Env) ([]Shown, error) {
		e := view{of}
		byPolicy, err := e.profilesOf(ctx, names)
		if err != nil {
			return nil, err
		}
		var lines []string
		for _, p := range slices.Concat(byPolicy...) {
			a := p.Of.All
			if p.Verdict.Go {
				lines = append(lines, fmt.Sprintf("%s: go. It solves %.1f%% of its attempts and %.1f%% of the tasks within %d; in %.1f%% of the groups the rewards differ, and only those carry a gradient.",
					p.Name, 100*a.Success, 100*a.PassK, p.Of.K, 100*a.Mixed))
				continue
			}
			line := p.Name + ": no-go."
			for _, r := range p.Verdict.Failed {
				line += " " + r.String() + "."
			}
			lines = append(lines, line)
		}
		if n := len(byPolicy); n > 1 {
			from, to := byPolicy[0][0], byPolicy[n-1][0]
			a, b := from.Of.All, to.Of.All
			lines = append(lines, fmt.Sprintf("From %s to %s the mean reward changes by %+.3f, pass@%d by %+.3f, and the share of groups without a gradient by %+.3f.",
				from.Name, to.Name, b.RewardMean-a.RewardMean, from.Of.K, b.PassK-a.PassK, b.ZeroVariance-a.ZeroVariance))
		}
		return bullets(lines), nil
	}
}
