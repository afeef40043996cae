package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// episodeFile is one file of episodes: a policy on the tasks of a split.
type episodeFile struct {
	method      string
	label       string // further part of the file's name, such as the seed of a trained policy
	split       string
	budget      string
	decoding    string
	temperature float64
	k           int
	seed        uint64
	slots       int
	// version identifies the policy in the stage's key: the hash of its weights, or of its rules.
	version string
	open    func() (policy.Policy, error)
	// sameWeights is the method of another policy that has the same weights and has played the same tasks. Its episodes are copied, because
	// sampling depends on the weights and not on the name. Empty for none.
	sameWeights string
}

func (p episodeFile) file() string {
	name := p.split + "." + p.budget + "." + p.decoding
	if p.label != "" {
		name = p.label + "." + name
	}
	return filepath.Join("episodes", p.method, name+".jsonl")
}

// stage is the name of the stage that plays the file.
func (p episodeFile) stage() string { return playStage(p.file()) }

func playStage(file string) string { return "play/" + filepath.ToSlash(file) }

// Rules are the settings of an episode in a budget mode.
func (e *Env) Rules(budget string) episode.Config {
	cfg := e.Config.Episode
	cfg.Budget = episode.BudgetMode(budget)
	return cfg
}

// playKey returns the hash of what decides a file of episodes, and the tasks that are played.
func (e *Env) playKey(s suite.Suite, p episodeFile) (key string, tasks []suite.Task, err error) {
	data, err := e.dataKey()
	if err != nil {
		return "", nil, err
	}
	if tasks, err = e.tasks(s, p.split); err != nil {
		return "", nil, err
	}
	decided := []any{"play", data, e.Rules(p.budget), e.Config.Reward, p.method, p.label, p.split, p.budget, p.decoding, p.temperature, p.k, p.seed, p.version, e.shown(), len(tasks), e.Config.Eval.NTasks}
	if f, ok := e.derived(p.split); ok && f.Key != nil {
		decided = append(decided, f.Key)
	}
	return run.Key(decided...), tasks, nil
}

// play plays one file of episodes. It skips a finished file and continues an interrupted one.
func (e *Env) play(ctx context.Context, p episodeFile) error {
	s, err := e.Suite(ctx)
	if err != nil {
		return err
	}
	key, tasks, err := e.playKey(s, p)
	if err != nil {
		return err
	}
	file := p.file()
	return e.Run.Stage(ctx, p.stage(), key, func() ([]string, error) {
		if err := e.Run.Claim(p.stage(), key, file, file+rollout.PendingSuffix); err != nil {
			return nil, err
		}
		if err := os.MkdirAll(filepath.Dir(e.Run.Path(file)), 0o755); err != nil {
			return nil, err
		}
		if p.sameWeights != "" {
			return []string{file}, e.copyEpisodes(p)
		}
		pol, err := p.open()
		if err != nil {
			return nil, err
		}
		return []string{file}, e.playTo(ctx, s, pol, p, tasks, e.Run.Path(file))
	})
}

// playTo plays a policy on tasks and appends to the file path, whose folder is there. A file that was interrupted is continued.
func (e *Env) playTo(ctx context.Context, s suite.Suite, pol policy.Policy, p episodeFile, tasks []suite.Task, path string) error {
	out, err := rollout.OpenOutput(path, "")
	if err != nil {
		return fmt.Errorf("%w. Delete the file, and its episodes are played again", err)
	}
	if n := out.Repaired(); n > 0 {
		e.Logf("%s: cut off %d bytes of a line that was not written to its end", path, n)
	}
	bar := run.NewProgress(e.Options.Log, fmt.Sprintf("  %s on %s, %s budget, %s:", p.method, p.split, p.budget, p.decoding), out.Len())
	_, err = rollout.Run(ctx, s, pol, rollout.Attempts(tasks, p.k), rollout.Options{
		Seed: p.seed, Slots: p.slots, Episode: e.Rules(p.budget), Reward: e.Config.Reward, Method: p.method, Decoding: p.decoding, Temperature: p.temperature, Output: out, MaxErrors: e.Config.MaxErrors,
		Progress: func(pr rollout.Progress) {
			text := fmt.Sprintf("solved %.3f", pr.Solved)
			if pr.Errors > 0 {
				text += fmt.Sprintf(", %d could not be played on", pr.Errors)
			}
			bar.Set(pr.Done, pr.Total, text)
		},
	})
	return errors.Join(err, out.Close())
}

// copyEpisodes copies the episodes of the policy with the same weights, under this policy's name.
func (e *Env) copyEpisodes(p episodeFile) error {
	of := p
	of.method = p.sameWeights
	trs, err := trajectory.ReadFile(e.Run.Path(of.file()))
	if err != nil {
		return err
	}
	file := e.Run.Path(p.file())
	if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) { // begun and interrupted
		return err
	}
	out, err := trajectory.OpenWriter(file)
	if err != nil {
		return err
	}
	for i := range trs {
		rest, ok := strings.CutPrefix(trs[i].EpisodeID, p.sameWeights+"/")
		if !ok {
			return errors.Join(fmt.Errorf("%s: episode %q is not of %s", of.file(), trs[i].EpisodeID, p.sameWeights), out.Close())
		}
		trs[i].Method, trs[i].EpisodeID = p.method, p.method+"/"+rest
	}
	return errors.Join(out.Write(trs...), out.Close())
}

// Episodes reads every episode that these settings ask for and that was played.
func (e *Env) Episodes(ctx context.Context) ([]trajectory.Trajectory, error) {
	files, err := e.episodeFiles(ctx)
	if err != nil {
		return nil, err
	}
	return e.readEpisodes(files.asked)
}

func (e *Env) readEpisodes(files []string) (out []trajectory.Trajectory, err error) {
	for _, f := range files {
		trs, err := trajectory.ReadFile(e.Run.Path(f))
		if err != nil {
			return nil, err
		}
		out = append(out, trs...)
	}
	return out, nil
}

// episodeFiles are the files of episodes in the run folder, below it and sorted.
type episodeFiles struct {
	asked   []string // finished, with these settings
	others  []string // of other policies, tasks, splits, budget modes or rules of an episode, or not played by a stage at all
	missing []string // asked for, of policies that are trained, but not played to the end
}

// episodeFiles lists the files of episodes. A file that was changed after its stage wrote it is an error that names the file.
func (e *Env) episodeFiles(ctx context.Context) (out episodeFiles, err error) {
	want := map[string]episodeFile{}
	for _, p := range e.scriptedFiles() {
		want[p.file()] = p
	}
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			t, err := e.Result(name, seed)
			if err != nil && !errors.Is(err, run.ErrNotDone) {
				return out, err
			}
			for _, p := range e.learnedFiles(e.Config.Recipes[name].Method, seed) {
				p.version = t.Weights // without training with these settings, the episodes count as those of other settings
				want[p.file()] = p
			}
		}
	}
	there, err := e.playedFiles()
	if err != nil {
		return out, err
	}
	s, err := e.Suite(ctx)
	if err != nil {
		return out, err
	}
	var known []string
	var changed []error
	for _, f := range slices.Sorted(maps.Keys(want)) {
		key, _, err := e.playKey(s, want[f])
		if err != nil {
			return out, err
		}
		stage := want[f].stage()
		err = e.Run.Check(stage, key)
		switch {
		case err == nil:
			out.asked = append(out.asked, f)
		case !errors.Is(err, run.ErrNotDone):
			changed = append(changed, err)
		case want[f].version != "":
			out.missing = append(out.missing, f)
		}
		if err == nil || e.Run.Begun(stage, key) {
			known = append(known, f)
		}
	}
	for _, f := range there {
		if !slices.Contains(known, f) {
			out.others = append(out.others, f)
		}
	}
	return out, errors.Join(changed...)
}

// playedFiles lists all files below the folder episodes, also those that no stage wrote.
func (e *Env) playedFiles() (out []string, err error) {
	methods, err := os.ReadDir(e.Run.Path("episodes"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	for _, m := range methods {
		if !m.IsDir() {
			continue
		}
		files, err := os.ReadDir(e.Run.Path("episodes", m.Name()))
		if err != nil {
			return nil, err
		}
		for _, f := range files {
			if filepath.Ext(f.Name()) == ".jsonl" && !f.IsDir() {
				out = append(out, filepath.Join("episodes", m.Name(), f.Name()))
			}
		}
	}
	return out, err
}

// brokenOff counts, for each method, the episodes that a broken tool or policy ended. No rate includes them.
func brokenOff(trs []trajectory.Trajectory) (notes []string) {
	broken, played := map[string]int{}, map[string]int{}
	for i := range trs {
		played[trs[i].Method]++
		if trs[i].End == trajectory.Error {
			broken[trs[i].Method]++
		}
	}
	for _, method := range slices.Sorted(maps.Keys(broken)) {
		notes = append(notes, fmt.Sprintf("%s: %d of %d episodes could not be played on (a tool or the policy broke down) and are in no rate", method, broken[method], played[method]))
	}
	return notes
}
