package stage

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/run"
)

// lineage is a recipe's ancestors and itself, oldest first, copy pre-training included.
func (e *Env) lineage(name string) ([]string, error) {
	line, err := e.Config.Lineage(name)
	return append([]string{config.RootName}, line...), err
}

// steps lists the steps of training of a policy that was trained in this run's folder. It returns an error if a step is not done with these
// settings.
func (e *Env) steps(name string, seed uint64) ([]trainedStep, error) {
	line, err := e.lineage(name)
	if err != nil {
		return nil, err
	}
	var out []trainedStep
	parent := ""
	for _, n := range line {
		s, err := e.step(n, parent, forSeed(seed))
		if err != nil {
			return nil, err
		}
		if err := e.Run.Check(e.folder(seed, n), s.Key); errors.Is(err, run.ErrNotDone) {
			return nil, &untrainedError{n, seed, err}
		} else if err != nil {
			return nil, err
		}
		t, err := e.Result(n, seed)
		if err != nil {
			return nil, err
		}
		s.Weights, parent = t.Weights, t.Weights
		out = append(out, s)
	}
	return out, nil
}

// untrainedError says that no policy was trained with these settings.
type untrainedError struct {
	name string
	seed uint64
	why  error
}

func (e *untrainedError) Error() string {
	return fmt.Sprintf("%s, seed %d, is not trained with these settings: run the training stage first", e.name, e.seed)
}

func (e *untrainedError) Unwrap() error { return e.why }

// trained reads the result of a policy that was trained here with these settings, taken from a committed checkpoint, or chosen from such
// policies. It checks the files of the policy and of its ancestors. The error is [run.ErrNotDone] for a policy that is not there, and a
// *[run.ChangedError] for a file that was changed.
func (e *Env) trained(name string, seed uint64) (Trained, error) {
	dir := e.folder(seed, name)
	t, err := e.Result(name, seed)
	if err != nil {
		return t, err
	}
	if err := e.Run.Unchanged(dir); err != nil {
		return t, err
	}
	if t.Chosen != "" {
		_, err := e.trained(t.Chosen, seed)
		return t, err
	}
	if _, taken := e.Taken(name, seed); !taken { // a policy that these settings do not train must not stand in their tables
		_, err = e.steps(name, seed)
	}
	return t, err
}

// decider lists what decides a step of training of a run with the recipe's settings.
type decider func(sub *Env, name, parent string) ([]any, error)

func forSeed(seed uint64) decider {
	return func(sub *Env, name, parent string) ([]any, error) { return sub.decides(name, seed, parent) }
}

// step is a step of training as the settings have it, without its weights.
func (e *Env) step(name, parent string, decides decider) (trainedStep, error) {
	sub, err := e.with(name)
	if err != nil {
		return trainedStep{}, err
	}
	parts, err := decides(sub, name, parent)
	if err != nil {
		return trainedStep{}, err
	}
	decided, err := json.Marshal(parts)
	return trainedStep{Recipe: name, Key: run.Key(parts...), Decided: decided}, err
}
