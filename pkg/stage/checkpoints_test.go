package stage

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/suites"
)

// quick are settings with which the Go backend trains a line of policies, reinforcement included, in a second.
var quick = []string{"eval.n_tasks=4", "eval.resamples=20", "eval.attempts=1", "profile.tasks=2", "profile.attempts=2", "train=[sft_lazy, sft_lazy+grpo]", "train_seeds=[1]", "publish=story",
	"recipes.sft_lazy.with.sft.run.max_steps=2", "sft.run.eval_every=1", "sft.run.save_every=1", "tiny.copy_pretraining.steps=6", "tiny.copy_pretraining.vocabulary_steps=1", "tiny.copy_pretraining.micro_batch_size=4", "tiny.copy_pretraining.check_every=1",
	"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16", "episode.max_tokens_per_turn=4", "engine.slots=8", "engine.rows=[8]",
	"grpo.iterations=1", "grpo.prompts=2", "grpo.group_size=2", "grpo.eval_every=1", "grpo.eval_tasks=1", "grpo.update.epochs=1", "grpo.update.loss.beta=0"}

// project makes an empty project and enters it, so that results are published there and no plugin is found.
func project(t *testing.T) string {
	t.Helper()
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{"go.mod", "README.md"} {
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	return root
}

// onGo opens a run whose models run on the Go backend, with a log.
func onGo(t *testing.T, out string, set ...string) (*Env, *strings.Builder) {
	t.Helper()
	var log strings.Builder
	e, err := Open(Options{Suite: "chain", Profile: "smoke", Out: out, Log: &log, Set: append(slices.Clone(quick), set...)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	committedAt(e, "0123456789ab")
	return e, &log
}

// committedAt makes a run report this revision for the program and for the project's folder.
func committedAt(e *Env, revision string) {
	e.Run.Revision, e.Data.Revision, e.tree = revision, revision, func() string { return revision }
}

// handmade makes a policy by calling work, which returns the files of its folder. It puts the policy where training with the settings would
// have put it. Ancestors that do not exist get a result without weights.
func handmade(t *testing.T, e *Env, name string, seed uint64, work func(dir string) ([]string, error)) {
	t.Helper()
	if err := e.root().prepare(t.Context()); err != nil {
		t.Fatal(err)
	}
	line, err := e.lineage(name)
	if err != nil {
		t.Fatal(err)
	}
	parent := ""
	for _, n := range line {
		step, err := e.step(n, parent, forSeed(seed))
		if err != nil {
			t.Fatal(err)
		}
		dir := e.folder(seed, n)
		if n != name && e.Run.Done(dir, step.Key) {
			there, err := e.Result(n, seed)
			if err != nil {
				t.Fatal(err)
			}
			parent = there.Weights
			continue
		}
		parent = hash([]byte(n))
		if err := e.Run.Renew(t.Context(), dir, step.Key, func() ([]string, error) {
			if n == name {
				return work(dir)
			}
			result := filepath.Join(dir, "result.json")
			return []string{result}, run.WriteJSON(e.Run.Path(result), Trained{Recipe: n, Seed: seed, Weights: parent})
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// asStage makes files the output of a finished stage.
func asStage(t *testing.T, e *Env, stage string, files ...string) {
	t.Helper()
	if err := e.Run.Renew(t.Context(), stage, "made by a test", func() ([]string, error) { return files, nil }); err != nil {
		t.Fatal(err)
	}
}

func doAll(t *testing.T, e *Env, steps ...func(*Env, context.Context) error) {
	t.Helper()
	for _, s := range steps {
		if err := s(e, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

const useAuto = "checkpoints.use=auto"

// published trains, plays and publishes the small policies of a project.
func published(t *testing.T) (root string, trained *Env) {
	t.Helper()
	root = project(t)
	e, _ := onGo(t, filepath.Join(root, "runs"))
	doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Train, (*Env).Evaluate, (*Env).Report, (*Env).Publish)
	return root, e
}

// One small project is trained and published. The parts of the test then use its checkpoints.
func TestCommittedCheckpoints(t *testing.T) {
	root, first := published(t)
	for _, c := range []struct {
		name string
		run  func(t *testing.T, root string, first *Env)
	}{{"taken", checkTaken}, {"that do not fit", checkMisfits}, {"training instead", checkTrainingInstead}, {"published again", checkPublishedAgain}} {
		t.Run(c.name, func(t *testing.T) { c.run(t, root, first) })
	}
}

// Where training would run on the Go backend, published policies are taken instead, and everything after training is the same.
func checkTaken(t *testing.T, root string, first *Env) {
	e, log := onGo(t, t.TempDir(), useAuto)
	doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Train, (*Env).Profiles, (*Env).Evaluate, (*Env).Report)
	for _, name := range e.Config.Train {
		want, err := first.Result(name, 1)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := e.Result(name, 1); err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%s: result %+v, %v; want %+v", name, got, err, want)
		}
		for _, f := range []string{"model/model.safetensors", "model/config.json", "model/tokenizer.json", "metrics.jsonl"} {
			a, errA := os.ReadFile(first.Run.Path(first.folder(1, name), f))
			b, errB := os.ReadFile(e.Run.Path(e.folder(1, name), f))
			if errA != nil || errB != nil || string(a) != string(b) {
				t.Errorf("%s: %s differs from the one trained (%v, %v)", name, f, errA, errB)
			}
		}
	}
	if _, err := os.Stat(e.Run.Path(e.folder(1, config.RootName))); !os.IsNotExist(err) {
		t.Errorf("copy pre-training was done although nothing needs it: %v", err)
	}
	a, errA := os.ReadFile(first.Run.Path("results_table.csv"))
	b, errB := os.ReadFile(e.Run.Path("results_table.csv"))
	if errA != nil || errB != nil || string(a) != string(b) {
		t.Errorf("the tables differ (%v, %v):\n%s\n%s", errA, errB, a, b)
	}
	for _, want := range []string{"training would run on GoMLX's Go backend", "taken from " + filepath.Join(root, "results", "chain", "checkpoints", "sft_lazy+grpo"), "make setup", "checkpoints.use=never"} {
		if !strings.Contains(log.String(), want) {
			t.Errorf("the output does not say %q:\n%s", want, log)
		}
	}
	var m run.Manifest
	if err := run.ReadJSON(e.Run.Path("manifest.json"), &m); err != nil {
		t.Fatal(err)
	}
	if m.Go != runtime.Version() || m.Revision == "" || m.Backend == "" || len(m.Inputs) == 0 || m.Config == nil {
		t.Errorf("the manifest does not say what made it: Go %q, revision %q, backend %q, inputs %v", m.Go, m.Revision, m.Backend, m.Inputs)
	}
	notes := strings.Join(m.Notes, "\n")
	for _, want := range []string{"sft_lazy, seed 1: not trained in this run", "sft_lazy+grpo, seed 1: not trained in this run", "trained with go, profile smoke", "because training would run on GoMLX's Go backend", "make setup"} {
		if !strings.Contains(notes, want) {
			t.Errorf("the manifest's notes do not say %q:\n%s", want, notes)
		}
	}

	// A second run does nothing. If training is asked for, the run trains, and the notes disappear.
	before := log.Len()
	doAll(t, e, (*Env).Train)
	if again := log.String()[before:]; again != "" {
		t.Errorf("the second time:\n%s", again)
	}
	e.Config.Checkpoints.Use = "never"
	doAll(t, e, (*Env).Train)
	if notes := e.takenNotes(); len(notes) > 0 {
		t.Errorf("trained, but noted as taken: %v", notes)
	}
	if _, err := e.Result(config.RootName, 1); err != nil {
		t.Error(err)
	}
	// A policy that was trained here stays.
	e.Config.Checkpoints.Use = "auto"
	doAll(t, e, (*Env).Train)
	if notes := e.takenNotes(); len(notes) > 0 {
		t.Errorf("what was trained here was replaced: %v", notes)
	}
}

// A checkpoint that does not fit is refused before anything is done, with what does not fit and what can be done.
func checkMisfits(t *testing.T, root string, _ *Env) {
	dir := filepath.Join(root, "results", "chain", "checkpoints")
	weights := filepath.Join(dir, "sft_lazy", "model.safetensors")
	whole, err := os.ReadFile(weights)
	if err != nil {
		t.Fatal(err)
	}
	out := t.TempDir() // only data and tokenizer may be written there
	damaged := slices.Clone(whole)
	damaged[len(damaged)-1] ^= 1
	for name, c := range map[string]struct {
		set     []string
		weights []byte
		want    []string
	}{
		"damaged weights":  {nil, damaged, []string{weights + " is damaged", "git checkout", "sft_lazy, seed 1"}},
		"cut off":          {nil, whole[:len(whole)/2], []string{weights + " is damaged"}},
		"other sft":        {[]string{"sft.schedule.learning_rate=0.001"}, nil, []string{"stage sft_lazy has other settings", "sft.schedule.learning_rate is 0.001, committed is 0.003"}},
		"other root":       {[]string{"tiny.copy_pretraining.steps=7"}, nil, []string{"stage root has other settings", "tiny.copy_pretraining.steps is 7, committed is 6"}},
		"other grpo":       {[]string{"grpo.group_size=4"}, nil, []string{"stage sft_lazy+grpo has other settings", "grpo.group_size is 4, committed is 2", "--train sft_lazy --set 'train_seeds=[1]'"}},
		"other reward":     {[]string{"reward.call=0.5"}, nil, []string{"stage sft_lazy+grpo", "reward.call is 0.5, committed is 0"}},
		"other data":       {[]string{"suite.world.train.calc=151"}, nil, []string{"the data set is another one"}},
		"another seed":     {[]string{"train_seeds=[1, 2]"}, nil, []string{"sft_lazy, sft_lazy+grpo, seed 2: the committed one is of training seed 1", "train_seeds=[1]"}},
		"another policy":   {[]string{"train=[sft_lazy, polished]"}, nil, []string{"polished, seed 1: none is committed in " + dir}},
		"another ancestor": {[]string{"recipes.sft_lazy.from=polished"}, nil, []string{"root, polished, sft_lazy", "went through root, sft_lazy"}},
	} {
		if c.weights != nil {
			if err := os.WriteFile(weights, c.weights, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		e, _ := onGo(t, out, append([]string{useAuto}, c.set...)...)
		err := e.Train(t.Context())
		if err == nil {
			t.Errorf("%s: taken", name)
			continue
		}
		for _, want := range append(c.want, "training would run on GoMLX's Go backend", "make setup", "checkpoints.use=never", "--profile smoke") {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: the refusal does not say %q:\n%v", name, want, err)
			}
		}
		if _, err := os.Stat(e.Run.Path("train", "seed1")); !os.IsNotExist(err) {
			t.Errorf("%s: something was trained or taken: %v", name, err)
		}
		if c.weights != nil {
			if err := os.WriteFile(weights, whole, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	// Settings that decide nothing of training do not matter.
	e, _ := onGo(t, t.TempDir(), useAuto, "eval.attempts=3", "eval.n_tasks=6", "gate.format=0", "engine.slots=4", "engine.rows=[4]", "train=[sft_lazy]")
	doAll(t, e, (*Env).Train)
	if notes := e.takenNotes(); len(notes) != 1 {
		t.Errorf("notes %v", notes)
	}
}

// With checkpoints.use=never a run trains on the Go backend. With auto, a begun training is neither dropped nor continued before the user
// has chosen.
func checkTrainingInstead(t *testing.T, _ string, first *Env) {
	out := t.TempDir()
	e, log := onGo(t, out, "checkpoints.use=never", "train=[sft_lazy]")
	doAll(t, e, (*Env).Train)
	if strings.Contains(log.String(), "taken from") || len(e.takenNotes()) > 0 {
		t.Errorf("taken although training was asked for:\n%s", log)
	}
	want, err := first.Result("sft_lazy", 1)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := e.Result("sft_lazy", 1); err != nil || got.Weights != want.Weights {
		t.Errorf("trained on the same backend: weights %.12s, %v; want %.12s", got.Weights, err, want.Weights)
	}
	e, _ = onGo(t, out, useAuto)
	if err := e.Train(t.Context()); err == nil || !strings.Contains(err.Error(), "begun with these settings") || !strings.Contains(err.Error(), "checkpoints.use=always drops it") {
		t.Errorf("half trained here: error %v", err)
	}
	e, _ = onGo(t, out, "checkpoints.use=always")
	doAll(t, e, (*Env).Train)
	if notes := e.takenNotes(); len(notes) != 2 || !strings.Contains(notes[0], "because checkpoints.use is always") {
		t.Errorf("always: notes %v", notes)
	}
}

// Publishing again removes what an earlier publication left, also of models; a run of taken policies publishes them as they
// were, and a folder that would grow too large is refused with nothing written.
func checkPublishedAgain(t *testing.T, root string, first *Env) {
	dir := filepath.Join(root, "results", "chain")
	read := func() map[string]string {
		out := map[string]string{}
		files, err := fs.Glob(os.DirFS(dir), "checkpoints/*/*")
		if err != nil {
			t.Fatal(err)
		}
		for _, f := range files {
			b, err := os.ReadFile(filepath.Join(dir, f))
			if err != nil {
				t.Fatal(err)
			}
			out[f] = string(b)
		}
		return out
	}
	was := read()
	for _, f := range []string{"sft_lazy/checkpoint.json", "sft_lazy/model.safetensors", "sft_lazy/result.json", "sft_lazy/metrics.jsonl", "sft_lazy+grpo/history.csv", "sft_lazy+grpo/tokenizer.json"} {
		if was[filepath.Join("checkpoints", f)] == "" {
			t.Errorf("%s was not published", f)
		}
	}
	for name, b := range was {
		if strings.Contains(b, root) {
			t.Errorf("%s names a folder of this machine", name)
		}
	}
	first.Config.Checkpoints.MaxMB = 0.001
	if err := os.WriteFile(filepath.Join(dir, "checkpoints", "sft_lazy", "config.json"), []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	if err := first.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "checkpoints.max_mb, 0.001") || !strings.Contains(err.Error(), "checkpoints.publish=[") {
		t.Errorf("too large: error %v", err)
	}
	if read()[filepath.Join("checkpoints", "sft_lazy", "config.json")] != "old" {
		t.Error("the refused publication wrote files")
	}
	first.Config.Checkpoints.MaxMB = 10
	doAll(t, first, (*Env).Publish)

	e, _ := onGo(t, t.TempDir(), useAuto)
	doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Train, (*Env).Report)
	if err := run.WriteFile(filepath.Join(dir, "checkpoints", "gone", "model.safetensors"), []byte("old")); err != nil {
		t.Fatal(err)
	}
	doAll(t, e, (*Env).Publish)
	now := read()
	for name, b := range was {
		if now[name] != b {
			t.Errorf("published from taken policies, %s is another one", name)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "checkpoints", "gone")); len(now) != len(was) || !os.IsNotExist(err) {
		t.Errorf("%d files, want %d; the folder of an earlier publication: %v", len(now), len(was), err)
	}
	e.Config.Checkpoints.Publish = []string{"sft_lazy"}
	doAll(t, e, (*Env).Publish)
	kept := read()
	if kept[filepath.Join("checkpoints", "sft_lazy+grpo", "checkpoint.json")] != "" || kept[filepath.Join("checkpoints", "sft_lazy", "checkpoint.json")] == "" {
		t.Errorf("checkpoints.publish names one, published are %d files", len(kept))
	}
	e.Config.Publish = config.PublishNothing
	if err := e.Publish(t.Context()); err == nil || !strings.Contains(err.Error(), "profile smoke is not for publication") {
		t.Errorf("a run that is not for publication: error %v", err)
	}
	e.Config.Publish = config.PublishExperiment
	doAll(t, e, (*Env).Publish)
	beside := filepath.Join(dir, experiments, "smoke")
	for _, name := range []string{"manifest.json", "results_table.md", "results_by_stratum.csv"} {
		if _, err := os.Stat(filepath.Join(beside, name)); err != nil {
			t.Errorf("an experiment lacks %s: %v", name, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "cost_vs_success.png")); err != nil {
		t.Errorf("a story lacks its picture: %v", err)
	}
	for _, name := range []string{"checkpoints", "trajectories", "sample.jsonl", "train", "cost_vs_success.png"} {
		if _, err := os.Stat(filepath.Join(beside, name)); !os.IsNotExist(err) {
			t.Errorf("an experiment has %s of the story (%v)", name, err)
		}
	}
	// A picture that no document shows and the training logs stay in the run folder: neither publication has them.
	for _, name := range []string{"routing_matrix.png", "routing.md", "train"} {
		for _, in := range []string{dir, beside} {
			if _, err := os.Stat(filepath.Join(in, name)); !os.IsNotExist(err) {
				t.Errorf("%s has %s, which nobody looks at there (%v)", in, name, err)
			}
		}
	}
	doAll(t, first, (*Env).Publish) // publishes the story again: the experiment beside it stays
	if _, err := os.Stat(filepath.Join(beside, "manifest.json")); err != nil || len(read()) != len(was) {
		t.Errorf("the experiment beside a story: %v; %d files of models, want %d", err, len(read()), len(was))
	}
}

// The committed checkpoints of this repository fit the default profile. After a change of its settings or data they must be published
// again: otherwise a machine without an XLA plugin could not reproduce the results.
func TestCommittedCheckpointsFitTheDefaultProfile(t *testing.T) {
	root, err := run.Root()
	if err != nil {
		t.Fatal(err)
	}
	hashes, err := os.ReadFile(filepath.Join(root, "data", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	published := 0
	for _, s := range suites.Names() {
		if _, err := os.Stat(filepath.Join(root, "results", s, "manifest.json")); errors.Is(err, fs.ErrNotExist) {
			continue // no run of it is published yet, and the README shows none
		}
		published++
		e, err := Open(Options{Suite: s, Out: t.TempDir(), Log: io.Discard})
		if err != nil {
			t.Fatal(err)
		}
		found := 0
		for _, name := range e.Config.Train {
			var c checkpoint
			if err := run.ReadJSON(filepath.Join(e.committedDir(name), checkpointFile), &c); errors.Is(err, fs.ErrNotExist) {
				continue // not published yet, or refused by the gate
			} else if err != nil {
				t.Fatal(err)
			}
			found++
			if !strings.Contains(string(hashes), c.Data+"  "+s+"/manifest.json") {
				t.Errorf("%s/%s: trained on a data set of SHA-256 %.12s, which is not the one that data/README.md lists", s, name, c.Data)
			}
			read := map[bool]string{true: c.Files["tokenizer.json"], false: c.Data} // what copy pre-training reads, what recipes read
			err := e.sameSteps(c, func(sub *Env, name, parent string) ([]any, error) {
				return sub.decidedBy(name, c.Seed, parent, read[name == config.RootName]), nil
			})
			if err != nil {
				t.Errorf("%s/%s: %v", s, name, err)
			}
		}
		if found == 0 {
			t.Errorf("%s: no checkpoint is committed", s)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
	if published == 0 {
		t.Error("no run is published")
	}
}
