package show

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The regimes are shown from the committed results where the run does not train them, and the text says so; the reference figures say
// that nobody reproduced them.
func TestRegimesExhibit(t *testing.T) {
	root := t.TempDir() // a project without results
	for _, f := range []string{"go.mod", "README.md"} {
		if err := os.WriteFile(filepath.Join(root, f), nil, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(root)
	e := small(t)
	if err := os.MkdirAll(e.Results, 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Regimes(t.Context(), e); err == nil || !strings.Contains(err.Error(), "no committed results") {
		t.Errorf("without results: %v", err)
	}
	for name, content := range map[string]string{
		"manifest.json": `{"suite": "chain", "profile": "full", "seeds": [1, 2, 3], "revision": "0123456789ab"}`,
		"results_table.csv": "method,split,budget,decoding,success_rate,success_lo,success_hi,chain_rate,chain_rate_lo,chain_rate_hi\n" +
			"brittle,test,none,greedy,0.5,0.25,0.75,1,0.9,1\nbrittle,test,none,sampled,0.1,0,0.2,0.1,0,0.2\n",
	} {
		if err := os.WriteFile(filepath.Join(e.Results, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, _ := markdown(t, e, Regimes)
	for _, want := range []string{"| lazy start | sft_lazy | - | - | - | sft_lazy+grpo | - | - | - |", "| brittle start, learning rate 3e-4 | brittle | 0.500 (0.250 to 0.750) | 1.000 (0.900 to 1.000) | - | brittle+grpo_high_lr | - |",
		"Committed results", "profile full, training seeds 1, 2, 3, revision 0123456789ab"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to hold %q", got, want)
		}
	}
	got, _ = markdown(t, e, Reference)
	for _, want := range []string{"**Reference figures, not reproduced**", "| SFT (lazy) | 0.667 | 0.980 | 0.013 | 0.000 | 0.553 |", "crashes in 3 iterations"} {
		if !strings.Contains(got, want) {
			t.Errorf("got\n%s\nwant it to hold %q", got, want)
		}
	}
	for _, r := range e.Definition.Regimes {
		for _, m := range []string{r.Start, r.After} {
			if e.Config.Recipes[m].Method != m {
				t.Errorf("no recipe has the method %s", m)
			}
		}
		if e.Config.Recipes[r.After].From != r.Start {
			t.Errorf("%s starts from %s, not from %s", r.After, e.Config.Recipes[r.After].From, r.Start)
		}
	}
}
