package stage

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/run"
)

// checkpointFormat is the version of the layout of committed checkpoints.
const checkpointFormat = 1

// checkpointFile describes a committed checkpoint. In a run's folder it marks a policy that was taken from a checkpoint and not trained.
const checkpointFile = "checkpoint.json"

// A checkpoint is a trained policy in results/<suite>/checkpoints/<recipe>. It holds the key of every step of training that led to it. If the
// settings at hand give the same keys, training with them would make this policy. A step's key includes the hash of its parent's weights: the
// keys form a chain, and the chain can be checked without the weights of earlier steps.
type checkpoint struct {
	Format   int               `json:"format"`
	Suite    string            `json:"suite"`
	Recipe   string            `json:"recipe"`
	Seed     uint64            `json:"seed"`
	Profile  string            `json:"profile"` // of the run that trained it
	Backend  string            `json:"backend"`
	Revision string            `json:"revision"`
	Data     string            `json:"data"`  // SHA-256 of the data set's manifest
	Steps    []trainedStep     `json:"steps"` // oldest first, copy pre-training and the recipe included
	Files    map[string]string `json:"files"` // name -> SHA-256
	// Taken, in a run's folder, says why the policy came from the checkpoint and was not trained.
	Taken string `json:"taken,omitempty"`

	content map[string][]byte
}

// trainedStep is one step of training on the way to a checkpoint.
type trainedStep struct {
	Recipe  string `json:"recipe"`
	Key     string `json:"key"`
	Weights string `json:"weights"` // SHA-256 of its model.safetensors
	// Decided is the list whose hash is the key. A message about another key names the setting that differs.
	Decided json.RawMessage `json:"decided"`
}

// modelFiles of a checkpoint lie in the sub-folder model of a run; historyFiles may be missing.
var (
	modelFiles   = []string{"model.safetensors", "config.json", "tokenizer.json"}
	historyFiles = []string{metricsFile, historyFile}
)

// below is where a checkpoint's file lies in the folder of the recipe's run.
func below(name string) string {
	if slices.Contains(modelFiles, name) {
		return filepath.Join("model", name)
	}
	return name
}

func hash(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// committedDir is the folder of a recipe's committed checkpoint.
func (e *Env) committedDir(name string) string {
	return filepath.Join(e.Results, "checkpoints", name)
}

// useCommitted decides whether policies are taken from committed checkpoints instead of being trained. If so, all of them must fit: the
// error says which do not, and what the user can choose.
func (e *Env) useCommitted(ctx context.Context, names []string, seeds []uint64) (bool, error) {
	if err := e.root().prepare(ctx); err != nil {
		return false, err
	}
	use := e.Config.Checkpoints.Use
	if use == config.UseNever || len(names) == 0 {
		return false, nil
	}
	why := "checkpoints.use is " + config.UseAlways
	if use == config.UseAuto {
		trained, begun := e.trainedHere(names, seeds)
		if trained {
			return false, nil
		}
		b, err := e.Backend()
		if err != nil {
			return false, err
		}
		if b.Kind != lm.KindGo {
			return false, nil
		}
		why = "training would run on GoMLX's Go backend (" + b.Why + ")"
		if begun {
			return false, fmt.Errorf("%s, and %s holds training that was begun with these settings. Choose (the flags are those of go run ./scripts/repro):\n"+
				"  --set checkpoints.use=%s goes on with it on that backend, which takes hours\n"+
				"  --set checkpoints.use=%s drops it and takes the committed checkpoints", why, e.Run.Path("train"), config.UseNever, config.UseAlways)
		}
	}
	var misfits []misfit
	fit := map[uint64][]string{}
	for _, seed := range seeds {
		for _, name := range names {
			if !slices.Contains(e.Config.SeedsOf(name), seed) {
				continue
			}
			needed, err := e.needed(name)
			if err != nil {
				return false, err
			}
			fits := true
			for _, n := range needed {
				if _, err := e.committed(n, seed); err != nil {
					fits = false
					misfits = add(misfits, n, fmt.Sprint(seed), err.Error())
				}
			}
			if fits {
				fit[seed] = append(fit[seed], name)
			}
		}
	}
	if len(misfits) > 0 {
		return false, errors.New(why + ", and not every policy has a committed checkpoint that fits these settings:\n" + lines(misfits) + choices(seeds, fit))
	}
	if e.taking != why {
		e.taking = why
		e.Logf("%s: the policies are taken from the committed checkpoints in %s. To train them: %s", why, filepath.Join(e.Results, "checkpoints"), howToTrain)
	}
	return true, nil
}

const howToTrain = "make setup installs the XLA plugin where it can be had (make doctor says what is missing); go run ./scripts/repro --set checkpoints.use=never trains on any backend, for hours on the Go backend"

// misfit groups policies without a fitting checkpoint by the reason.
type misfit struct {
	why          string
	names, seeds []string
}

func add(all []misfit, name, seed, why string) []misfit {
	at := slices.IndexFunc(all, func(m misfit) bool { return m.why == why })
	if at < 0 {
		all, at = append(all, misfit{why: why}), len(all)
	}
	m := &all[at]
	if !slices.Contains(m.names, name) {
		m.names = append(m.names, name)
	}
	if !slices.Contains(m.seeds, seed) {
		m.seeds = append(m.seeds, seed)
	}
	return all
}

func lines(all []misfit) (out string) {
	for _, m := range all {
		out += fmt.Sprintf("  %s, seed %s: %s\n", strings.Join(m.names, ", "), strings.Join(m.seeds, ", "), m.why)
	}
	return out
}

// choices tells a user what to do when some policies have no fitting checkpoint. fit lists the policies that have one, by seed.
func choices(seeds []uint64, fit map[uint64][]string) string {
	out := "Choose (the flags are those of go run ./scripts/repro):\n" +
		"  make setup                    installs the XLA plugin where it can be had: training takes minutes then; make doctor says what is missing\n" +
		"  --set checkpoints.use=never   trains on whatever backend there is: hours on the Go backend\n" +
		"  --profile smoke               trains small models on small data in minutes\n"
	for _, seed := range seeds {
		if len(fit[seed]) > 0 {
			out += fmt.Sprintf("  --train %s --set 'train_seeds=[%d]'   takes those that fit\n", strings.Join(fit[seed], ","), seed)
		}
	}
	return out + "  or the settings that the committed checkpoints were trained with"
}

// trainedHere reports whether all of the policies are trained in this run's folder with these settings (or refused by the gate). If not,
// begun says whether the training of one was begun there.
func (e *Env) trainedHere(names []string, seeds []uint64) (all, begun bool) {
	all = true
	for _, seed := range seeds {
		key, err := e.key(config.RootName, seed, "")
		warm := err == nil && e.Run.Begun(e.folder(seed, config.RootName), key)
		for _, name := range names {
			if _, no := e.refused(name, seed); no && warm || !slices.Contains(e.Config.SeedsOf(name), seed) {
				continue
			}
			if _, err := e.steps(name, seed); err != nil {
				all, begun = false, begun || warm
			}
		}
	}
	return all, begun
}

// needed lists the recipes whose checkpoints replace the training of one recipe: the recipe itself and, for a gated one, the parent whose
// reward profile the gate reads.
func (e *Env) needed(name string) ([]string, error) {
	r, ok := e.Config.Recipes[name]
	if len(r.Choose) > 0 {
		var all []string
		for _, of := range r.Choose {
			above, err := e.needed(of)
			if err != nil {
				return nil, err
			}
			all = append(all, above...)
		}
		return all, nil
	}
	if !ok || !algorithmOf(r).gated {
		return []string{name}, nil
	}
	above, err := e.needed(r.From)
	return append(above, name), err
}

// committed reads the committed checkpoint of a recipe and checks each of its files. An error says why the checkpoint does not fit.
func (e *Env) committed(name string, seed uint64) (checkpoint, error) {
	var c checkpoint
	dir := e.committedDir(name)
	if err := run.ReadJSON(filepath.Join(dir, checkpointFile), &c); errors.Is(err, fs.ErrNotExist) {
		return c, fmt.Errorf("none is committed in %s", filepath.Dir(dir))
	} else if err != nil {
		return c, err
	}
	data, err := e.dataKey()
	if err != nil {
		return c, err
	}
	switch {
	case c.Format != checkpointFormat:
		return c, fmt.Errorf("%s has format %d, this program reads %d", dir, c.Format, checkpointFormat)
	case c.Suite != e.Options.Suite || c.Recipe != name:
		return c, fmt.Errorf("%s is of recipe %s of suite %s", dir, c.Recipe, c.Suite)
	case c.Seed != seed:
		return c, fmt.Errorf("the committed one is of training seed %d", c.Seed)
	case c.Data != data:
		return c, fmt.Errorf("the data set is another one: %s has SHA-256 %.12s, the checkpoint was trained on %.12s", e.Data.Path("manifest.json"), data, c.Data)
	}
	if err := e.sameSteps(c, forSeed(seed)); err != nil {
		return c, err
	}
	c.content = map[string][]byte{}
	for _, f := range append(append([]string{"result.json"}, modelFiles...), historyFiles...) {
		want, listed := c.Files[f]
		if !listed {
			if slices.Contains(historyFiles, f) {
				continue
			}
			return c, fmt.Errorf("%s lists no %s", filepath.Join(dir, checkpointFile), f)
		}
		b, err := os.ReadFile(filepath.Join(dir, f))
		if err != nil {
			return c, err
		}
		if got := hash(b); got != want {
			return c, fmt.Errorf("%s is damaged: its SHA-256 is %.12s, want %.12s; get it back with git checkout -- %q", filepath.Join(dir, f), got, want, filepath.Join(dir, f))
		}
		c.content[f] = b
	}
	if last := c.Steps[len(c.Steps)-1]; last.Weights != c.Files["model.safetensors"] {
		return c, fmt.Errorf("%s: the last step's weights are not those of model.safetensors", filepath.Join(dir, checkpointFile))
	}
	if _, tok, err := e.root().tokenizer(); err != nil || tok != c.Files["tokenizer.json"] {
		return c, errors.Join(err, fmt.Errorf("the tokenizer trained here is not that of %s", dir))
	}
	return c, nil
}

// sameSteps compares the steps of training of a checkpoint with what the settings would do.
func (e *Env) sameSteps(c checkpoint, decides decider) error {
	line, err := e.lineage(c.Recipe)
	if err != nil {
		return err
	}
	var were []string
	for _, s := range c.Steps {
		were = append(were, s.Recipe)
	}
	if !slices.Equal(line, were) {
		return fmt.Errorf("the settings train %s, the committed checkpoint went through %s", strings.Join(line, ", "), strings.Join(were, ", "))
	}
	parent := ""
	for _, s := range c.Steps {
		want, err := e.step(s.Recipe, parent, decides)
		if err != nil {
			return err
		}
		if want.Key != s.Key {
			return fmt.Errorf("stage %s has other settings than the committed checkpoint: %s", s.Recipe, e.whatDiffers(s.Recipe, want.Decided, s.Decided))
		}
		parent = s.Weights
	}
	return nil
}

// take copies a committed checkpoint into the folder of the training stage. A gated recipe asks its gate first, as training would.
func (e *Env) take(ctx context.Context, name string, seed uint64) error {
	if r := e.Config.Recipes[name]; name != config.RootName && algorithmOf(r).gated {
		if err := e.take(ctx, r.From, seed); err != nil {
			return err
		}
		sub, err := e.with(name)
		if err != nil {
			return err
		}
		if err := sub.gate(ctx, name, seed); err != nil {
			return err
		}
	}
	c, err := e.committed(name, seed)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	// This is not the key of training: a later run that can train trains the policy.
	key := run.Key("committed", c.Steps[len(c.Steps)-1].Key, c.Files)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key, dir); err != nil {
			return nil, err
		}
		var files []string
		for _, f := range slices.Sorted(maps.Keys(c.content)) {
			to := filepath.Join(dir, below(f))
			if err := run.WriteFile(e.Run.Path(to), c.content[f]); err != nil {
				return nil, err
			}
			files = append(files, to)
		}
		e.Logf("  taken from %s, trained with %s at revision %s", e.committedDir(name), c.Backend, c.Revision)
		c.Taken = e.taking
		mark := filepath.Join(dir, checkpointFile)
		return append(files, mark), run.WriteJSON(e.Run.Path(mark), c)
	})
}

// Taken says of a policy of this run that it comes from a committed checkpoint.
func (e *Env) Taken(name string, seed uint64) (checkpoint, bool) {
	var c checkpoint
	dir := e.folder(seed, name)
	return c, e.Run.ReadJSON(dir, filepath.Join(dir, checkpointFile), &c) == nil
}

// takenNotes are the manifest's notes on policies that were not trained in this run.
func (e *Env) takenNotes() []string {
	var names, out []string
	for _, name := range e.Config.Train {
		needed, err := e.needed(name)
		if err != nil {
			continue
		}
		for _, n := range needed {
			if !slices.Contains(names, n) {
				names = append(names, n)
			}
		}
	}
	for _, seed := range e.Config.TrainSeeds {
		for _, name := range names {
			if c, ok := e.Taken(name, seed); ok {
				out = append(out, fmt.Sprintf("%s, seed %d: not trained in this run but taken from the committed checkpoint results/%s/checkpoints/%s (trained with %s, profile %s, revision %s), "+
					"because %s. Its curves, training tokens and times are those of that training. To train: %s", name, seed, c.Suite, name, c.Backend, c.Profile, c.Revision, c.Taken, howToTrain))
			}
		}
	}
	return out
}
