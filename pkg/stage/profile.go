package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/report"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// ErrNoGo is what a refused gate returns; its text says which threshold failed and what to do.
var ErrNoGo = errors.New("the gate says no-go")

// noGoError is the gate's refusal of a recipe.
type noGoError struct {
	recipe  string
	verdict reward.Verdict
}

func (e *noGoError) Error() string {
	return fmt.Sprintf("%s: %v: %s\nset recipes.%s.override=true to train anyway", e.recipe, ErrNoGo, e.verdict, e.recipe)
}

func (e *noGoError) Unwrap() error { return ErrNoGo }

// Profiled is the reward profile of a policy and the gate's verdict, as stored.
type Profiled struct {
	Policy     string            `json:"policy"`
	For        string            `json:"for,omitempty"` // the recipe whose settings, other than the run's, it was made with
	Seed       uint64            `json:"seed"`
	Profile    reward.Profile    `json:"profile"`
	Thresholds reward.Thresholds `json:"thresholds"`
	Verdict    reward.Verdict    `json:"verdict"`
}

func profileFile(name string, seed uint64) string {
	return filepath.Join("profile", fmt.Sprintf("%s.seed%d.json", name, seed))
}

func profileStage(file string) string {
	return filepath.ToSlash(strings.TrimSuffix(file, ".json"))
}

// profileOf is the file of a policy's reward profile. A recipe with other rewards, tasks or thresholds than the run's has a file of its own:
// in one file the two would overwrite each other, run after run.
func (e *Env) profileOf(name string, seed uint64) (file, of string) {
	judged := func(e *Env) string {
		return run.Key(e.Config.Profile, e.Config.Gate, e.Config.Episode, e.Config.Reward, e.shown(), e.ownWorlds(e.recipeName))
	}
	if e.whole != nil && judged(e) != judged(e.whole) {
		return profileFile(name+".for."+e.recipeName, seed), e.recipeName
	}
	return profileFile(name, seed), ""
}

// Profile samples k episodes of a trained policy on each of some train tasks, summarises their rewards, and asks the gate whether reinforcement
// from this policy can work. A recipe that plays in several worlds of its own is profiled in the first of them.
func (e *Env) Profile(ctx context.Context, name string, seed uint64) (Profiled, error) {
	file, of := e.profileOf(name, seed)
	out := Profiled{Policy: name, For: of, Seed: seed, Thresholds: e.Config.Gate}
	t, err := e.Result(name, seed)
	if err != nil {
		return out, err
	}
	if err := e.World(ctx); err != nil {
		return out, err
	}
	cfg := e.Config.Profile
	key, err := e.profileKey(of, t.Weights)
	if err != nil {
		return out, err
	}
	err = e.Run.Stage(ctx, profileStage(file), key, func() ([]string, error) {
		worlds, done, err := e.rolloutWorlds(ctx, of)
		if err != nil {
			return nil, err
		}
		defer done()
		tasks, err := e.draw(worlds[0], e.Definition.Train, cfg.Tasks, seed)
		if err != nil {
			return nil, err
		}
		pl := player{env: e, name: name, method: name, seed: seed}
		defer pl.close()
		pol, err := pl.policy(cfg.Temperature)
		if err != nil {
			return nil, err
		}
		trs, err := e.sample(ctx, worlds[0], pol, rollout.Attempts(tasks, cfg.Attempts), seed, cfg.Temperature, "  profile of "+name+":")
		if err != nil {
			return nil, err
		}
		out.Profile = reward.NewProfile(trs, cfg.Attempts, e.Definition.Behaviours...)
		out.Verdict = reward.Gate(out.Profile, e.Config.Gate)
		return []string{file}, run.WriteJSON(e.Run.Path(file), out)
	})
	if err != nil {
		return out, err
	}
	if err := e.Run.ReadJSON(profileStage(file), file, &out); err != nil {
		return out, err
	}
	e.logOnce("  %s: %s", out.name(), out.Verdict) // each recipe that starts from the policy asks for the profile
	return out, nil
}

// profileKey is the hash of what decides the profile of a policy with these weights; of is the recipe whose worlds it plays in, if any.
func (e *Env) profileKey(of, weights string) (string, error) {
	data, err := e.dataKey()
	parts := []any{"profile", data, weights, e.Config.Profile, e.Config.Gate, e.Config.Episode, e.Config.Reward, e.shown()}
	if n := e.ownWorlds(of); n > 0 {
		parts = append(parts, "worlds", n)
	}
	return run.Key(parts...), err
}

// sample plays episodes that are not kept.
func (e *Env) sample(ctx context.Context, s suite.Suite, pol policy.Policy, items []rollout.Item, seed uint64, temperature float64, label string) ([]trajectory.Trajectory, error) {
	bar := run.NewProgress(e.Options.Log, label, 0)
	trs, err := rollout.Run(ctx, s, pol, items, rollout.Options{Seed: seed, MaxErrors: e.Config.MaxErrors, Slots: e.Config.Engine.Slots, Episode: e.Config.Episode, Reward: e.Config.Reward,
		Decoding: "sampled", Temperature: temperature,
		Progress: func(p rollout.Progress) {
			bar.Set(p.Done, p.Total, fmt.Sprintf("reward %.3f, solved %.3f", p.MeanReward, p.Solved))
		}})
	whole := slices.DeleteFunc(trs, func(t trajectory.Trajectory) bool { return t.End == trajectory.Error })
	if n := len(items) - len(whole); err == nil && n > 0 {
		e.Logf("%s %d of %d episodes could not be played on and are left out", label, n, len(items))
	}
	return whole, err
}

// gateSettings lists the settings that a policy is profiled with: those of each gated recipe that starts from it, each profile's file once. If
// no such recipe is trained, they are the run's own.
func (e *Env) gateSettings(name string, seed uint64) ([]*Env, error) {
	var out []*Env
	var files []string
	for _, recipe := range e.gatedFrom(name) {
		sub, err := e.with(recipe)
		if err != nil {
			return nil, err
		}
		if file, _ := sub.profileOf(name, seed); !slices.Contains(files, file) {
			files, out = append(files, file), append(out, sub)
		}
	}
	if len(out) == 0 {
		out = append(out, e)
	}
	return out, nil
}

// gatedFrom lists the gated recipes to be trained that start from a policy.
func (e *Env) gatedFrom(name string) (out []string) {
	for _, recipe := range e.candidates(e.Config.Train...) {
		if r := e.Config.Recipes[recipe]; r.From == name && algorithmOf(r).gated {
			out = append(out, recipe)
		}
	}
	return out
}

// ProfilesFor makes the profiles of a policy that gates decide by.
func (e *Env) ProfilesFor(ctx context.Context, name string, seed uint64) ([]Profiled, error) {
	gates, err := e.gateSettings(name, seed)
	if err != nil {
		return nil, err
	}
	var out []Profiled
	for _, j := range gates {
		p, err := j.Profile(ctx, name, seed)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, nil
}

// Profiles makes the reward profiles of the policies that reinforcement may start from, for the first training seed. An ablation that no
// recipe starts from is left out.
func (e *Env) Profiles(ctx context.Context) error {
	for _, name := range e.Config.Train {
		r := e.Config.Recipes[name]
		if r.Method == "" || algorithmOf(r).gated || len(r.Choose) > 0 || r.Ablation != "" && len(e.gatedFrom(name)) == 0 {
			continue
		}
		if _, err := e.ProfilesFor(ctx, name, e.Config.TrainSeeds[0]); err != nil {
			return err
		}
	}
	return nil
}

// storedProfiles reads the profiles in the run folder, by file. A profile with the run's settings is not returned if every gate reads a
// profile of its own: it is left from an earlier run, perhaps of other weights.
func (e *Env) storedProfiles() (files []string, stored []Profiled, err error) {
	all, err := os.ReadDir(e.Run.Path("profile"))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, nil, err
	}
	for _, entry := range all {
		if filepath.Ext(entry.Name()) != ".json" {
			continue
		}
		var p Profiled
		file := filepath.Join("profile", entry.Name())
		if err := e.Run.ReadJSON(profileStage(file), file, &p); errors.Is(err, run.ErrNotDone) {
			e.logOnce("%s is left out: no stage made it", e.Run.Path(file))
			continue
		} else if err != nil {
			return nil, nil, err
		}
		gates, err := e.gateSettings(p.Policy, p.Seed)
		if err != nil {
			return nil, nil, err
		}
		own := slices.ContainsFunc(gates, func(j *Env) bool { _, of := j.profileOf(p.Policy, p.Seed); return of == "" })
		if p.For == "" && !own {
			continue
		}
		files, stored = append(files, file), append(stored, p)
	}
	return files, stored, nil
}

// profiles are the stored ones for the report.
func (e *Env) profiles() ([]report.Profile, error) {
	_, stored, err := e.storedProfiles()
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(stored, func(a, b Profiled) int {
		return slices.Index(e.Config.Train, a.Policy) - slices.Index(e.Config.Train, b.Policy)
	})
	var out []report.Profile
	for _, p := range stored {
		out = append(out, p.Reported())
	}
	return out, nil
}

// name is the policy's name. For a profile with a recipe's own settings it names the recipe too.
func (p Profiled) name() string {
	if p.For != "" {
		return p.Policy + " for " + p.For
	}
	return p.Policy
}

// Reported is the profile as a report shows it.
func (p Profiled) Reported() report.Profile {
	return report.Profile{Name: p.name(), Of: p.Profile, Thresholds: p.Thresholds, Verdict: p.Verdict}
}
