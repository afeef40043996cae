package stage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/tiny"
	"github.com/toolroute/toolroute/pkg/tokenizer"
	"github.com/toolroute/toolroute/pkg/train"
)

// tinyRoot is the tiny preset: a tokenizer made of the suite's texts, and a small model that is trained from scratch to copy.
type tinyRoot struct{ *Env }

// prepare trains the tokenizer on what the train split shows.
func (e tinyRoot) prepare(ctx context.Context) error {
	if _, err := e.Suite(ctx); err != nil {
		return err
	}
	key, err := e.tokenizerKey()
	if err != nil {
		return err
	}
	t := e.Config.Tiny.Tokenizer
	return e.Run.Stage(ctx, tokenizerStageName, key, func() ([]string, error) {
		var texts []string
		for _, demos := range e.Definition.Corpus {
			played, err := e.demonstrations(ctx, config.Recipe{Demos: demos}, e.Config.Seed)
			if err != nil {
				return nil, err
			}
			texts = append(texts, tiny.Texts(played)...)
		}
		tok, err := tokenizer.TrainTiny(texts, tokenizer.TinyOptions{MaxVocab: t.MaxVocab, MinTexts: t.MinTexts, Atoms: tiny.Atoms})
		if err != nil {
			return nil, err
		}
		e.Logf("  %d tokens in the vocabulary", tok.VocabSize())
		return []string{tokenizerFile}, run.WriteFile(e.Run.Path(tokenizerFile), tok.JSON())
	})
}

// tokenizerKey is the hash of what decides the tokenizer.
func (e tinyRoot) tokenizerKey() (string, error) {
	data, err := e.dataKey()
	return run.Key("tokenizer", tiny.Version, data, e.Config.Tiny.Tokenizer, e.shown(), e.Definition.Corpus), err
}

// codec reads the run's tokenizer.
func (e tinyRoot) codec() (*chat.Codec, error) {
	if err := e.Run.Unchanged(tokenizerStageName); err != nil {
		return nil, err
	}
	tok, err := tokenizer.Load(e.Run.Path(tokenizerFile))
	if err != nil {
		return nil, err
	}
	return chat.NewTinyCodec(tok)
}

// ids lists the token ids that rows of copy pre-training are made of: those that demonstrations use, without control tokens.
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

// curriculum names the ids of the rows of copy pre-training: those that the suite's demonstrations use. If the demonstrations hold no
// comparison, neither do the rows.
func (e tinyRoot) curriculum(ctx context.Context, c *chat.Codec) (tiny.Curriculum, error) {
	played, err := e.demonstrations(ctx, config.Recipe{Demos: e.Definition.Corpus[0]}, e.Config.Seed)
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
	cur := tiny.Curriculum{Vocabulary: ids(c, examples), Digits: digits(c), Separator: c.Stops()[0], RowStart: lead}
	enc := func(s string) []int32 { return c.Tokenizer().Encode(s) }
	yes, no := enc("1; 1 above 2 yes"), enc("1; 1 above 2 no")
	if len(yes) == 6 && len(no) == 6 && !slices.ContainsFunc(append(yes, no...), func(id int32) bool { return !slices.Contains(cur.Vocabulary, id) }) {
		cur.Before, cur.Above, cur.Yes, cur.No = no[1], no[3], yes[5], no[5]
	} else if e.Config.Tiny.CopyPretraining.CompareSteps > 0 {
		e.Logf("  no demonstration compares numbers as in \"1; 1 above 2 yes\", a token a word: the rows of copy pre-training leave comparisons out")
	}
	cur.Dates = e.Definition.Dates
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

// make does copy pre-training.
func (e tinyRoot) make(ctx context.Context, seed uint64) error {
	key, err := e.key(config.RootName, seed, "")
	if err != nil {
		return err
	}
	dir := e.folder(seed, config.RootName)
	return e.Run.Stage(ctx, dir, key, func() ([]string, error) {
		if err := e.Run.Claim(dir, key, dir); err != nil {
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
			if now != part || step < last { // each part has a progress bar of its own
				bar = run.NewProgress(e.Options.Log, fmt.Sprintf("  copy pre-training (seed %d), %s:", seed, now), step-1)
			}
			part, last = now, step
			bar.Set(step, of, fmt.Sprintf("loss %.3f", loss))
		}
		m, res, err := tiny.Pretrain(ctx, b, e.Config.Tiny.Model.Config(c.Tokenizer().VocabSize(), c.Stops()[0]), e.Config.Tiny.CopyPretraining, rows, seed, e.Run.Path(dir), progress)
		if err != nil {
			return nil, err
		}
		formed := res.Attempts[len(res.Attempts)-1]
		e.Logf("  copy loss %.3f after %d steps, attempt %d", formed.CopyLoss, formed.Steps, len(res.Attempts))
		if formed.CompareAccuracy != nil {
			e.Logf("  %.3f of comparisons right", *formed.CompareAccuracy)
		}
		return e.finish(dir, m, Trained{Recipe: config.RootName, Seed: seed, Steps: res.Steps, TrainedTokens: res.TrainedTokens, Processed: res.ProcessedTokens, Seconds: res.Seconds, CopyPretraining: &res}, Trained{})
	})
}

const tokenizerStageName = "tokenizer"

// tokenizerFile is the tokenizer of all policies of a run.
var tokenizerFile = filepath.Join("train", "tokenizer.json")

// tokenizer is the tokenizer's file and its SHA-256.
func (e tinyRoot) tokenizer() (content []byte, sum string, err error) {
	if content, err = os.ReadFile(e.Run.Path(tokenizerFile)); err != nil {
		return nil, "", err
	}
	return content, hash(content), nil
}

func (e tinyRoot) decided(seed uint64, tokenizer string) []decision {
	return []decision{{"stage", "copy pre-training"}, {"tokenizer", tokenizer}, {"tiny", e.Config.Tiny}, {"seed", seed}, {"version of the tiny preset", tiny.Version}}
}

// replay mixes rows of copy pre-training among the demonstrations.
func (e tinyRoot) replay(ctx context.Context, examples []train.Example, rows uint64) (train.Source, error) {
	if e.Config.ReplayFraction == 0 {
		return train.Fixed(examples), nil
	}
	c, err := e.codec()
	if err != nil {
		return nil, err
	}
	cur, err := e.curriculum(ctx, c)
	if err != nil {
		return nil, err
	}
	cur.Seed = rows
	return tiny.WithReplay(examples, e.Config.ReplayFraction, e.Config.Tiny.CopyPretraining, cur)
}

func (e tinyRoot) replayed() []decision {
	var share, rows any
	if e.Config.ReplayFraction > 0 {
		share, rows = e.Config.ReplayFraction, e.Config.Tiny.CopyPretraining
	}
	return []decision{{"version of the tiny preset", tiny.Version}, {"replay_fraction", share}, {"tiny.copy_pretraining", rows}}
}

func (e tinyRoot) plan() []rootStage {
	return []rootStage{{PlannedStage{Name: tokenizerStageName, Inputs: []string{worldStage}, Outputs: []string{filepath.ToSlash(tokenizerFile)}}, e.tokenizerKey}}
}
