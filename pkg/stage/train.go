package stage

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rng"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/train"
)

// Trained is what one step of training came to; result.json of its folder. Totals include the ancestors.
type Trained struct {
	Recipe        string             `json:"recipe"`
	Seed          uint64             `json:"seed"`
	Weights       string             `json:"weights"` // SHA-256 of model.safetensors
	Steps         int                `json:"steps"`
	TrainedTokens int64              `json:"trained_tokens"`
	Processed     int64              `json:"processed_tokens"`
	Episodes      int64              `json:"episodes"`
	Seconds       float64            `json:"seconds"`
	TotalTokens   int64              `json:"total_trained_tokens"`
	TotalEpisodes int64              `json:"total_episodes"`
	TotalSeconds  float64            `json:"total_seconds"`
	Demos         int                `json:"demonstrations,omitempty"`
	ValLoss       float64            `json:"val_loss,omitempty"`
	Warmup        *tiny.WarmupResult `json:"warmup,omitempty"`
	// Chosen is the recipe that this policy is of, where it was chosen and not trained; ChosenBy its mean reward on val.
	Chosen   string  `json:"chosen,omitempty"`
	ChosenBy float64 `json:"chosen_by,omitempty"`
}

// folder of a recipe's run below the run folder.
func (e *Env) folder(seed uint64, recipe string) string {
	return filepath.Join("train", fmt.Sprintf("seed%d", seed), recipe)
}

// Train makes the policies that the profile lists, for every training seed, with the ancestors they need. Where the gate
// refuses, the policy and its row are left out, which the manifest notes.
func (e *Env) Train(ctx context.Context) error {
	if _, err := e.useCommitted(ctx, e.candidates(e.Config.Train...), e.Config.TrainSeeds); err != nil {
		return err
	}
	for _, seed := range e.Config.TrainSeeds {
		for _, name := range e.Config.Train {
			if !slices.Contains(e.Config.SeedsOf(name), seed) {
				continue
			}
			err := e.TrainRecipe(ctx, name, seed)
			if errors.Is(err, ErrNoGo) {
				e.Logf("%v", err)
				continue
			}
			if err != nil {
				return err
			}
		}
	}
	return nil
}

// refused reports that a policy, or an ancestor, is missing because the gate said no-go.
func (e *Env) refused(name string, seed uint64) (string, bool) {
	line, err := e.Config.Lineage(name)
	if err != nil {
		return "", false
	}
	for _, n := range line {
		r := e.Config.Recipes[n]
		var p Profiled
		if algorithmOf(r).gated && !r.Override {
			sub, err := e.with(n)
			if err != nil {
				return "", false
			}
			if file, _ := sub.profileOf(r.From, seed); run.ReadJSON(e.Run.Path(file), &p) == nil && !p.Verdict.Go {
				return fmt.Sprintf("%s, seed %d: left out, %s", name, seed, p.Verdict), true
			}
		}
		if r.TokensOf != "" {
			if why, no := e.refused(r.TokensOf, seed); no {
				return fmt.Sprintf("%s, seed %d: left out, as it is to be as long as %s", name, seed, why), true
			}
		}
	}
	return e.noneToChoose(name, seed)
}

// TrainRecipe makes one policy and its ancestors, or takes it from its committed checkpoint.
func (e *Env) TrainRecipe(ctx context.Context, name string, seed uint64) error {
	line, err := e.Config.Lineage(name)
	if err != nil {
		return err
	}
	if len(e.Config.Recipes[name].Choose) > 0 {
		return e.choose(ctx, name, seed)
	}
	if take, err := e.useCommitted(ctx, []string{name}, []uint64{seed}); err != nil {
		return err
	} else if take {
		return e.take(ctx, name, seed)
	}
	if err := e.warmup(ctx, seed); err != nil {
		return err
	}
	for _, n := range line {
		if err := e.recipe(ctx, n, seed); err != nil {
			return err
		}
	}
	return nil
}

// atoms are the pieces of the action grammar that are one token each in the tiny preset.
var atoms = []string{"```json\n{\"thought\": \"", "```json\n{\"tool\": \"", "\", \"tool\": \"", "\", \"args\": {\"", "\": \"", "\"}}\n```"}

// tokenizerStage trains the tiny preset's tokenizer on what the train split shows.
func (e *Env) tokenizerStage(ctx context.Context) error {
	if _, err := e.Suite(ctx); err != nil {
		return err
	}
	data, err := e.dataKey()
	if err != nil {
		return err
	}
	t := e.Config.Tiny.Tokenizer
	return e.Run.Stage(ctx, "tokenizer", run.Key("tokenizer", data, t, e.kind.shown(e.Config), e.kind.corpus), func() ([]string, error) {
		var texts []string
		for _, demos := range e.kind.corpus {
			played, err := e.demonstrations(ctx, config.Recipe{Demos: demos}, e.Config.Seed)
			if err != nil {
				return nil, err
			}
			texts = append(texts, tiny.Texts(played)...)
		}
		tok, err := tokenizer.TrainTiny(texts, tokenizer.TinyOptions{MaxVocab: t.MaxVocab, MinTexts: t.MinTexts, Atoms: atoms})
		if err != nil {
			return nil, err
		}
		e.Logf("  %d tokens in the vocabulary", tok.VocabSize())
		return []string{tokenizerFile}, run.WriteFile(e.Run.Path(tokenizerFile), tok.JSON())
	})
}

// codec reads the run's tokenizer.
func (e *Env) codec() (*chat.Codec, error) {
	tok, err := tokenizer.Load(e.Run.Path(tokenizerFile))
	if err != nil {
		return nil, err
	}
	tmpl, err := chat.Parse(chat.Tiny)
	if err != nil {
		return nil, err
	}
	return chat.NewCodec(tok, tmpl)
}

// ids are the vocabulary of the copy warm-up: what demonstrations use, control tokens and the bytes nobody writes aside.
func ids(c *chat.Codec, examples []train.Example) []int32 {
	used := map[int32]bool{}
	for _, x := range examples {
		for _, id := range x.IDs {
			if !c.Tokenizer().IsSpecial(id) && !c.IsStop(id) {
				used[id] = true
			}
		}
	}
	var out []int32
	for id := range int32(c.Tokenizer().VocabSize()) {
		if used[id] {
			out = append(out, id)
		}
	}
	return out
}

// curriculum names the ids of the warm-up's rows: those that the suite's demonstrations use. Where they hold no comparison,
// neither do the rows.
func (e *Env) curriculum(ctx context.Context, c *chat.Codec) (tiny.Curriculum, error) {
	played, err := e.demonstrations(ctx, config.Recipe{Demos: e.kind.corpus[0]}, e.Config.Seed)
	if err != nil {
		return tiny.Curriculum{}, err
	}
	examples, err := tiny.Examples(c, played)
	if err != nil {
		return tiny.Curriculum{}, err
	}
	lead, ok := c.Tokenizer().TokenID("<|user|>")
	if !ok {
		return tiny.Curriculum{}, errors.New("the tokenizer has no <|user|> token: delete train/tokenizer.json and run again")
	}
	cur := tiny.Curriculum{Vocabulary: ids(c, examples), Digits: digits(c), Mark: c.Stops()[0], Lead: lead}
	enc := func(s string) []int32 { return c.Tokenizer().Encode(s) }
	yes, no := enc("1; 1 above 2 yes"), enc("1; 1 above 2 no")
	if len(yes) == 6 && len(no) == 6 && !slices.ContainsFunc(append(yes, no...), func(id int32) bool { return !slices.Contains(cur.Vocabulary, id) }) {
		cur.Before, cur.Above, cur.Yes, cur.No = no[1], no[3], yes[5], no[5]
	} else if e.Config.Tiny.Warmup.Compare > 0 {
		e.Logf("  the tokenizer has no single tokens for \"; \", above, yes and no: the copy warm-up leaves comparisons out")
	}
	cur.Dates = e.kind.dates
	return cur, nil
}

// digits are the ids of which numbers and dates are made.
func digits(c *chat.Codec) []int32 {
	var out []int32
	for _, r := range "0123456789-" {
		if id, ok := c.Tokenizer().TokenID(string(r)); ok {
			out = append(out, id)
		}
	}
	return out
}

func (e *Env) warmup(ctx context.Context, seed uint64) error {
	key, err := e.key(config.WarmupName, seed, "")
	if err != nil {
		return err
	}
	dir := e.folder(seed, config.WarmupName)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key); err != nil {
			return nil, err
		}
		b, err := e.Backend()
		if err != nil {
			return nil, err
		}
		c, err := e.codec()
		if err != nil {
			return nil, err
		}
		rows, err := e.curriculum(ctx, c)
		if err != nil {
			return nil, err
		}
		var bar *run.Progress
		part, last := "", 0
		progress := func(now string, step, of int, loss float64) {
			if now != part || step < last { // each part has its own time left
				bar = run.NewProgress(e.Options.Log, fmt.Sprintf("  warm-up (seed %d), %s:", seed, now), step-1)
			}
			part, last = now, step
			bar.Set(step, of, fmt.Sprintf("loss %.3f", loss))
		}
		m, res, err := tiny.WarmUp(ctx, b, e.Config.Tiny.Model.Config(c.Tokenizer().VocabSize(), c.Stops()[0]), e.Config.Tiny.Warmup, rows, seed, e.Run.Path(dir), progress)
		if err != nil {
			return nil, err
		}
		formed := res.Attempts[len(res.Attempts)-1]
		e.Logf("  copy loss %.3f after %d steps, attempt %d", formed.CopyLoss, formed.Steps, len(res.Attempts))
		if formed.Compared != nil {
			e.Logf("  %.3f of comparisons right", *formed.Compared)
		}
		return e.finish(dir, m, Trained{Recipe: config.WarmupName, Seed: seed, Steps: res.Steps, TrainedTokens: res.TrainedTokens, Seconds: res.Seconds, Warmup: &res}, Trained{})
	})
}

// tokenizerFile is the tokenizer of all policies of a run.
var tokenizerFile = filepath.Join("train", "tokenizer.json")

// decides lists what decides a step of training: its stage's key is the hash of it. The settings are those that hold for
// the recipe, parent is the hash of its parent's weights.
func (e *Env) decides(name string, seed uint64, parent string) ([]any, error) {
	var read string
	var err error
	if name == config.WarmupName {
		read, err = run.HashFile(e.Run.Path(tokenizerFile))
	} else {
		read, err = e.dataKey()
	}
	return e.decidedBy(name, seed, parent, read), err
}

// decidedBy is the list for what the step reads: the hash of the tokenizer for the warm-up, of the data set for a recipe.
// Nothing here may depend on the machine, or committed checkpoints fit nowhere else.
func (e *Env) decidedBy(name string, seed uint64, parent, read string) []any {
	var out []any
	for _, d := range e.decisions(name, seed, parent, read) {
		if d.value != nil {
			out = append(out, d.value)
		}
	}
	return out
}

func (e *Env) decisions(name string, seed uint64, parent, read string) []decision {
	if name == config.WarmupName {
		return []decision{{"stage", "warmup"}, {"tokenizer", read}, {"tiny", e.Config.Tiny}, {"seed", seed}, {"version of comparisons", e.compareVersion()}}
	}
	return algorithmOf(e.Config.Recipes[name]).decided(e, name, seed, parent, read)
}

// compareVersion is the version of the rows that compare numbers, nil where none do.
func (e *Env) compareVersion() any {
	if e.Config.Tiny.Warmup.Compare == 0 {
		return nil
	}
	return tiny.CompareVersion
}

func (e *Env) key(name string, seed uint64, parent string) (string, error) {
	parts, err := e.decides(name, seed, parent)
	return run.Key(parts...), err
}

// with is the run with the settings that hold for a recipe.
func (e *Env) with(name string) (*Env, error) {
	cfg, err := e.Config.For(name)
	sub := *e
	sub.Config, sub.of = cfg, name
	if sub.own == nil {
		sub.own = e
	}
	return &sub, err
}

// finish saves a model with its tokenizer and its result.
func (e *Env) finish(dir string, m *lm.Model, t, parent Trained) ([]string, error) {
	if err := m.Save(e.Run.Path(dir, "model")); err != nil {
		return nil, err
	}
	m.Weights.Free()
	tok, err := os.ReadFile(e.Run.Path(tokenizerFile))
	if err != nil {
		return nil, err
	}
	if err := run.WriteFile(e.Run.Path(dir, "model", "tokenizer.json"), tok); err != nil {
		return nil, err
	}
	if t.Weights, err = run.HashFile(e.Run.Path(dir, "model", "model.safetensors")); err != nil {
		return nil, err
	}
	t.TotalTokens, t.TotalEpisodes, t.TotalSeconds = parent.TotalTokens+t.TrainedTokens, parent.TotalEpisodes+t.Episodes, parent.TotalSeconds+t.Seconds
	result := filepath.Join(dir, "result.json")
	return []string{result, filepath.Join(dir, "model", "model.safetensors"), filepath.Join(dir, "model", "config.json"), filepath.Join(dir, "model", "tokenizer.json")},
		run.WriteJSON(e.Run.Path(result), t)
}

// Result reads what a step of training came to.
func (e *Env) Result(name string, seed uint64) (Trained, error) {
	var t Trained
	err := run.ReadJSON(e.Run.Path(e.folder(seed, name), "result.json"), &t)
	if errors.Is(err, fs.ErrNotExist) {
		return t, fmt.Errorf("%s with seed %d is not trained yet: run the training stage first", name, seed)
	}
	return t, err
}

// recipe runs one step of training with the settings that hold for it.
func (e *Env) recipe(ctx context.Context, name string, seed uint64) error {
	sub, err := e.with(name)
	if err != nil {
		return err
	}
	r := sub.Config.Recipes[name]
	parent, err := e.Result(r.From, seed)
	if err != nil {
		return err
	}
	return algorithmOf(r).train(sub, ctx, name, seed, parent)
}

// imitate trains on demonstrations, where tokens_of says so as long as another policy, which is made first.
func (e *Env) imitate(ctx context.Context, name string, seed uint64, parent Trained) error {
	if of := e.Config.Recipes[name].TokensOf; of != "" {
		if err := e.own.TrainRecipe(ctx, of, seed); err != nil {
			return err
		}
		if _, err := e.tokensLeft(name, seed); err != nil {
			return err
		}
	}
	return e.sft(ctx, name, seed, parent)
}

func (e *Env) sft(ctx context.Context, name string, seed uint64, parent Trained) error {
	r := e.Config.Recipes[name]
	cfg := e.sftConfig(name, seed)
	key, err := e.key(name, seed, parent.Weights)
	if err != nil {
		return err
	}
	dir := e.folder(seed, name)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key); err != nil {
			return nil, err
		}
		c, err := e.codec()
		if err != nil {
			return nil, err
		}
		played, err := e.demonstrations(ctx, r, seed)
		if err != nil {
			return nil, err
		}
		examples, err := tiny.Examples(c, played)
		if err != nil {
			return nil, err
		}
		if examples, err = e.fitting(name, examples, cfg.Batch.Lengths); err != nil {
			return nil, err
		}
		examples, val := setApart(examples, seed)
		m, err := e.load(r.From, seed)
		if err != nil {
			return nil, err
		}
		cfg.Run.Seed, cfg.Run.Dir, cfg.Run.Resume = seed, e.Run.Path(dir), true
		bar := run.NewProgress(e.Options.Log, fmt.Sprintf("  %s (seed %d):", name, seed), 0)
		cfg.Run.Progress = func(l train.StepLog) error {
			loss, _ := l.Get("loss")
			acc, _ := l.Get("accuracy")
			of := cfg.Run.MaxSteps
			if cfg.Run.TrainTokens > 0 { // so many steps as it takes: shown as the share of the tokens
				tokens, _ := l.Get("trained_tokens")
				of = max(l.Step, int(float64(l.Step)*float64(cfg.Run.TrainTokens)/max(1, tokens)))
			}
			bar.Set(l.Step, of, fmt.Sprintf("loss %.3f, token accuracy %.3f", loss, acc))
			return nil
		}
		source := train.Fixed(examples)
		if e.Config.Rehearse > 0 {
			rows, err := e.curriculum(ctx, c)
			if err != nil {
				return nil, err
			}
			rows.Seed = rng.Seed64(seed, "train/rehearsal", name)
			if source, err = tiny.Rehearse(examples, e.Config.Rehearse, e.Config.Tiny.Warmup, rows); err != nil {
				return nil, err
			}
		}
		sum, err := train.SFT(ctx, m, source, val, cfg)
		if err != nil {
			return nil, err
		}
		t := Trained{Recipe: name, Seed: seed, Steps: sum.Steps, TrainedTokens: sum.TrainedTokens, Processed: sum.ProcessedTokens, Seconds: sum.Seconds, Demos: len(examples)}
		if sum.Best != nil {
			t.ValLoss = sum.Best.Value
			e.Logf("  validation loss %.4f at step %d", sum.Best.Value, sum.Best.Step)
		}
		return e.finish(dir, m, t, parent)
	})
}

// load reads a trained model on the run's backend.
func (e *Env) load(name string, seed uint64) (*lm.Model, error) {
	b, err := e.Backend()
	if err != nil {
		return nil, err
	}
	return lm.Load(b, e.Run.Path(e.folder(seed, name), "model"))
}

// tooLong is the largest share of demonstrations that may be left out because they fit no row.
const tooLong = 0.05

// fitting leaves out the demonstrations that are longer than the longest row, and says how many.
func (e *Env) fitting(name string, examples []train.Example, lengths []int) ([]train.Example, error) {
	longest := slices.Max(append([]int{0}, lengths...))
	var out []train.Example
	for _, x := range examples {
		if len(x.IDs) <= longest {
			out = append(out, x)
		}
	}
	left := len(examples) - len(out)
	if float64(left) > tooLong*float64(len(examples)) {
		return nil, fmt.Errorf("%d of %d demonstrations are longer than the longest row, %d tokens: raise sft.batch.lengths", left, len(examples), longest)
	}
	if left > 0 {
		e.Logf("  %s: %d of %d demonstrations are longer than %d tokens and are left out", name, left, len(examples), longest)
	}
	return out, nil
}

// heldOut is how many demonstrations of a recipe are kept from training to choose its checkpoint: of the very kind that is
// imitated, so that a bad habit is not mistaken for a bad fit. Never more than a tenth.
const heldOut = 64

// setApart keeps the validation examples apart, the same ones for one seed.
func setApart(examples []train.Example, seed uint64) (rest, val []train.Example) {
	n := min(heldOut, len(examples)/10)
	chosen := map[int]bool{}
	for _, i := range rng.New(seed, "train/validation").Perm(len(examples))[:n] {
		chosen[i] = true
	}
	for i, x := range examples {
		if chosen[i] {
			val = append(val, x)
		} else {
			rest = append(rest, x)
		}
	}
	return rest, val
}
