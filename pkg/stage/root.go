package stage

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/train"
)

// root is a model with its codec, from which all policies of a run descend. The tiny preset trains one from scratch. A pretrained folder, a
// quantised model, an adapter or an endpoint would be other roots. Recipes call the root [config.RootName].
type root interface {
	// prepare makes what the roots of all training seeds share, in stages of its own. It makes no model.
	prepare(ctx context.Context) error
	// make makes the model of a training seed. The stage has the name of the model's folder.
	make(ctx context.Context, seed uint64) error
	// codec turns texts into the model's token ids and back.
	codec() (*chat.Codec, error)
	// tokenizer is the file that is saved beside every model, and its hash.
	tokenizer() (content []byte, hash string, err error)
	// decided lists what decides the model of a training seed; tokenizer is the hash of that file. Nothing in it may depend on the machine.
	decided(seed uint64, tokenizer string) []decision
	// replay mixes rows that the root was trained on into a recipe's examples, in the share that replay_fraction says. rows is the seed of
	// the mixed-in rows.
	replay(ctx context.Context, examples []train.Example, rows uint64) (train.Source, error)
	// replayed lists what decides the mixed-in rows. Its values are nil if the settings ask for none.
	replayed() []decision
	// plan lists the stages of prepare.
	plan() []rootStage
}

// rootStage is a stage with its key. The key is asked for only if the stage's inputs exist.
type rootStage struct {
	PlannedStage
	key func() (string, error)
}

// roots are the kinds of models that the table models of the settings can name. A new one is one more entry.
var roots = map[string]func(*Env) root{
	"tiny": func(e *Env) root { return tinyRoot{e} },
}

// root returns the run's root, with the present settings.
func (e *Env) root() root { return roots[e.Config.Models[e.Options.Model].Kind](e) }

// checkModel returns an error for a model that the settings do not list, or whose kind is unknown.
func checkModel(name string, c config.Config) error {
	m, ok := c.Models[name]
	if !ok {
		return fmt.Errorf("--model %q: the table models of the settings has %s", name, strings.Join(slices.Sorted(maps.Keys(c.Models)), ", "))
	}
	if roots[m.Kind] == nil {
		return fmt.Errorf("models.%s.kind: %q is none of %s", name, m.Kind, strings.Join(slices.Sorted(maps.Keys(roots)), ", "))
	}
	return nil
}
