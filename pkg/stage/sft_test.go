package stage

import (
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/train"
)

// A supervised training whose loss explodes does not succeed. If there is a checkpoint, it becomes the policy, and the record says that
// training was broken off. Without a checkpoint, training fails and leaves no policy.
func TestExplodingSFT(t *testing.T) {
	steep := []string{"recipes.sft_lazy.with={sft: {run: {max_steps: 12, eval_every: 1}, schedule: {learning_rate: 30, warmup_steps: 4}}}", "replay_fraction=0"}
	e, log := onGo(t, t.TempDir(), steep...)
	untuned(t, e, "root", 1)
	if err := e.recipe(t.Context(), gambler, 1); err != nil {
		t.Fatal(err)
	}
	got, err := e.Result(gambler, 1)
	if err != nil || got.Steps >= 12 || !strings.Contains(got.Stopped, "rise of the loss") || !(got.ValLoss > 0 && got.ValLoss < 9) {
		t.Errorf("result %+v, %v", got, err)
	}
	if !strings.Contains(log.String(), "broken off, step") {
		t.Errorf("the output does not say that training was broken off:\n%s", log)
	}
	m, err := e.manifest(nil)
	if err != nil || !slices.ContainsFunc(m.Notes, func(n string) bool { return strings.Contains(n, "training was broken off after") }) {
		t.Errorf("the manifest's notes do not say that training was broken off: %q, %v", m.Notes, err)
	}

	e, _ = onGo(t, t.TempDir(), append(steep, "recipes.sft_lazy.with.sft.run.eval_every=0")...)
	untuned(t, e, "root", 1)
	if err := e.recipe(t.Context(), gambler, 1); !errors.Is(err, train.ErrDiverged) || !strings.Contains(err.Error(), gambler) {
		t.Errorf("without a checkpoint to go back to: error %v", err)
	}
	if _, err := os.Stat(e.Run.Path(e.folder(1, gambler), "result.json")); !os.IsNotExist(err) {
		t.Errorf("a policy was left: %v", err)
	}
}
