package suite

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"github.com/toolroute/toolroute/pkg/tool"
)

// fingerprintTasks is the number of tasks of a split, and of demonstrations of a kind, that a fingerprint holds.
const fingerprintTasks = 40

// Fingerprint hashes what a suite shows for the tasks, demonstrations and preferences of a sample: prompts, tools, the observations and
// the verdict of each gold path, and the calls to imitate. Two versions of a suite's code with one fingerprint show the same; a test compares it
// with the one that is noted for Definition.Version.
func Fingerprint(ctx context.Context, s Suite, d Definition) (string, error) {
	h := sha256.New()
	out := json.NewEncoder(h) // writing to a hash never fails; a value that cannot be marshalled is an error
	for _, split := range s.Splits() {
		tasks, err := s.Tasks(split)
		if err != nil {
			return "", err
		}
		for _, t := range Stratified(tasks, fingerprintTasks, 1) {
			shown, err := shownOf(ctx, s, t)
			if err == nil {
				err = out.Encode(shown)
			}
			if err != nil {
				return "", fmt.Errorf("fingerprint of task %s: %w", t.ID, err)
			}
		}
	}
	for _, kind := range d.Demos {
		demos, err := s.Demonstrations(ctx, kind, 1)
		if err != nil {
			return "", fmt.Errorf("fingerprint of %s demonstrations: %w", kind, err)
		}
		for _, x := range spread(demos, fingerprintTasks) {
			if err := out.Encode([]any{kind, x.Task.ID, x.Calls}); err != nil {
				return "", err
			}
		}
	}
	for _, kind := range d.Pairs {
		from, ok := s.(Preferrer)
		if !ok {
			return "", fmt.Errorf("suite %s lists pairs and has no preferences", d.Name)
		}
		pairs, err := from.Preferences(ctx, kind, 1)
		if err != nil {
			return "", fmt.Errorf("fingerprint of %s preferences: %w", kind, err)
		}
		for _, x := range spread(pairs, fingerprintTasks) {
			if err := out.Encode([]any{kind, x.Task.ID, x.Chosen, x.Rejected}); err != nil {
				return "", err
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// shownOf is what a suite shows of a task when its gold path is played.
func shownOf(ctx context.Context, s Suite, t Task) ([]any, error) {
	prompt, err := s.Prompt(t)
	if err != nil {
		return nil, err
	}
	box, err := s.Box(t)
	if err != nil {
		return nil, err
	}
	defer box.Close()
	shown := []any{t.ID, prompt}
	var seen []tool.Observation
	for _, c := range t.GoldPath {
		dec := json.NewDecoder(bytes.NewReader(c.Args))
		dec.UseNumber()
		var args map[string]any
		if err := dec.Decode(&args); err != nil {
			return nil, fmt.Errorf("arguments of %s: %w", c.Tool, err)
		}
		shown = append(shown, box.Charge(c.Tool, args))
		if c.Tool == tool.FinishName {
			answer, _ := args["answer"].(string)
			shown = append(shown, s.Verify(t, answer, seen))
			continue
		}
		obs, err := box.Call(ctx, c.Tool, args)
		if err != nil {
			shown = append(shown, err.Error())
			continue
		}
		seen, shown = append(seen, obs), append(shown, obs)
	}
	return shown, nil
}

// spread picks n of the elements, evenly over their order.
func spread[T any](all []T, n int) []T {
	if len(all) <= n {
		return all
	}
	out := make([]T, n)
	for i := range out {
		out[i] = all[i*len(all)/n]
	}
	return out
}
