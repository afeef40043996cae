package stage

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/lm"
	"github.com/toolroute/toolroute/pkg/rl"
	"github.com/toolroute/toolroute/pkg/suite/company"
	"github.com/toolroute/toolroute/pkg/tiny"
)

// fewTasks is a small data set of the company suite, with the plain offer in training too.
var fewTasks = []string{"suite.random_offers=0", "suite.mask_tools=0", "suite.train_tasks=120", "suite.val_tasks=21", "suite.test_tasks=42", "suite.heldout_combo_tasks=12", "suite.heldout_template_tasks=12"}

// smallCompany opens a run of the company suite on a few tasks.
func smallCompany(t *testing.T, set ...string) *Env {
	t.Helper()
	return opened(t, "company", slices.Concat(fewTasks, []string{"eval.resamples=20"}, set))
}

// A recipe with company settings of its own trains on the data set as these settings show it. Evaluation uses the run's settings.
func TestRecipesOwnCompany(t *testing.T) {
	e := smallCompany(t, "recipes.varied={from: base, method: varied, demos: optimal, with: {suite: {random_offers: 1, thoughts: false, mask_tools: 0.5}}}",
		"recipes.unplanned={from: base, method: unplanned, demos: optimal, with: {suite: {plan: false}}}",
		"recipes.wasteful={from: base, method: wasteful, demos: wasteful, with: {suite: {wasteful_share: 1}}}",
		"recipes.pairs={from: base, method: pairs, demos: optimal, max_tools: 2, worlds: 0}")
	// demos returns, for the demonstrations of a recipe, the price lists, the first thoughts, the number of needless calls, and the largest
	// number of gold tools.
	demos := func(name string) (lists, thoughts map[string]bool, waste, tools, n int) {
		sub, err := e.with(name)
		if err != nil {
			t.Fatal(err)
		}
		played, err := sub.demonstrations(t.Context(), e.Config.Recipes[name], 1)
		if err != nil {
			t.Fatal(err)
		}
		lists, thoughts = map[string]bool{}, map[string]bool{}
		for _, p := range played {
			list, _, _ := strings.Cut(p.Prompt.User, "question:")
			lists[list] = true
			thoughts[p.Trajectory.Turns[0].Action.Thought] = true
			gold := 0
			for _, c := range p.Trajectory.Task.GoldCalls {
				gold += c
			}
			waste += max(0, len(p.Trajectory.Turns)-1-gold)
			tools = max(tools, strings.Count(p.Trajectory.Task.Combination, "+")+1)
		}
		return lists, thoughts, waste, tools, len(played)
	}
	planned := func(thoughts map[string]bool) (yes, no int) {
		for s := range thoughts {
			if strings.Contains(s, ";") {
				yes++
			} else {
				no++
			}
		}
		return yes, no
	}
	own, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	all, _ := own.Tasks(company.Train)
	if lists, thoughts, waste, tools, n := demos("varied"); len(lists) < 10 || len(thoughts) != 1 || !thoughts[""] || waste > 0 || tools != 3 || n != len(all) {
		t.Errorf("varied: %d price lists, %d first thoughts, %d needless calls, %d tools, %d rows", len(lists), len(thoughts), waste, tools, n)
	}
	lists, thoughts, waste, tools, n := demos("unplanned")
	if yes, no := planned(thoughts); len(lists) != 1 || yes > 0 || no < 20 || waste > 0 || tools != 3 || n != len(all) {
		t.Errorf("unplanned: %d price lists, %d plans, %d plain thoughts, %d needless calls, %d tools, %d rows", len(lists), yes, no, waste, tools, n)
	}
	lists, thoughts, waste, tools, n = demos("wasteful")
	if yes, _ := planned(thoughts); len(lists) != 1 || yes < 20 || waste < len(all) || n != len(all) {
		t.Errorf("wasteful: %d price lists, %d plans, %d needless calls, %d tools, %d rows", len(lists), yes, waste, tools, n)
	}
	lists, thoughts, waste, tools, n = demos("pairs")
	if yes, _ := planned(thoughts); len(lists) != 1 || yes < 10 || waste > 0 || tools != 2 || n < len(all)/2 || n == len(all) {
		t.Errorf("pairs: %d price lists, %d plans, %d needless calls, %d tools, %d of %d rows", len(lists), yes, waste, tools, n, len(all))
	}
	if again, err := e.Suite(t.Context()); err != nil || again != own {
		t.Errorf("the run's own suite is another one after recipes were opened (%v)", err)
	}
	sub, err := e.with("varied")
	if err != nil {
		t.Fatal(err)
	}
	if s, err := sub.runSuite(t.Context()); err != nil || s != own {
		t.Errorf("evaluation of a recipe is not on the run's own suite (%v)", err)
	}
	for _, x := range all {
		if len(x.Offers) > 0 {
			t.Fatalf("%s has offers in the run's own suite", x.ID)
		}
	}
	if len(e.worlds) != 4 {
		t.Errorf("%d suites are open, want one for each way to show the data set: 4", len(e.worlds))
	}
	// A setting that was added later does not change the keys of finished runs that do not use it.
	for _, v := range []any{e.Config.Suite.ShownKey(), e.Config.Suite.OpenKey(1), sub.Config.Suite.DataKey(1)} {
		if b, err := json.Marshal(v); err != nil || strings.Contains(strings.ToLower(string(b)), "mask") {
			t.Errorf("a run without masked tools has them in its key: %s (%v)", b, err)
		}
	}
	if b, err := json.Marshal(sub.Config.Suite.ShownKey()); err != nil || !strings.Contains(string(b), `"mask_tools":0.5`) {
		t.Errorf("masked tools are not in the key of the recipe that has them: %s (%v)", b, err)
	}
	// The data set is not made again for them.
	if sub.Config.Suite.DataKey(1) == nil || !reflect.DeepEqual(sub.Config.Suite.DataKey(1), e.Config.Suite.DataKey(1)) {
		t.Error("a recipe's settings ask for another data set")
	}
}

// With tokens_of, SFT ends with as many trained tokens as the other policy, to within a step. The other policy is trained first.
func TestAsManyTokensAs(t *testing.T) {
	e, _ := onGo(t, t.TempDir(), "recipes.equal={from: sft_lazy, method: equal, demos: lazy, tokens_of: sft_lazy+grpo}", "recipes.sft_lazy+grpo.override=true",
		"recipes.none={from: sft_lazy+grpo, method: none, demos: lazy, tokens_of: sft_lazy}", "train=[equal]", "episode.max_tokens_per_turn=40",
		"grpo.update.schedule={kind: linear, learning_rate: 0.001, warmup_steps: 0}", "grpo.update.epochs=4")
	if err := e.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	equal, err := e.Result("equal", 1)
	if err != nil {
		t.Fatal(err)
	}
	grpo, err := e.Result("sft_lazy+grpo", 1)
	if err != nil {
		t.Fatal(err)
	}
	step := equal.TrainedTokens / int64(equal.Steps)
	if over := equal.TotalTokens - grpo.TotalTokens; over < 0 || over > 3*step || grpo.TrainedTokens == 0 {
		t.Errorf("%d trained tokens in all, the other policy has %d; a step has about %d", equal.TotalTokens, grpo.TotalTokens, step)
	}
	// A schedule without a length spans the run, here one iteration of four optimizer steps.
	if curve, err := os.ReadFile(e.Run.Path(e.folder(1, "sft_lazy+grpo"), "metrics.jsonl")); err != nil || !strings.Contains(string(curve), `"lr":0.00025,`) {
		t.Errorf("the last of four steps has no learning rate of a quarter of 0.001 (%v): %s", err, curve)
	}
	if _, err := e.steps("equal", 1); err != nil {
		t.Errorf("its key is not found again: %v", err)
	}
	if err := e.TrainRecipe(t.Context(), "none", 1); err == nil || !strings.Contains(err.Error(), "recipes.none.tokens_of: sft_lazy has") {
		t.Errorf("no token is left: error %v", err)
	}
}

// A recipe that chooses takes, of the policies that are trained, the one that did best on val; one that the gate refused is no candidate.
func TestChoose(t *testing.T) {
	e, log := onGo(t, t.TempDir(), "recipes.best={choose: [refused, sft_lazy+grpo, other], method: best}", "recipes.other={from: sft_lazy, method: other, algorithm: grpo, override: true}",
		"recipes.refused={from: sft_lazy, method: refused, algorithm: grpo, with: {gate: {format: 0.9}}}", "recipes.sft_lazy+grpo.override=true", "train=[sft_lazy, best]", "recipes.none={choose: [refused], method: none}")
	if err := e.Train(t.Context()); err != nil {
		t.Fatal(err)
	}
	was, err := e.Result("best", 1)
	if err != nil || was.Chosen != "sft_lazy+grpo" {
		t.Fatalf("of equal ones the first is chosen: %+v, %v", was, err)
	}
	stages, err := e.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	rec, err := e.Run.Record("train/seed1/best")
	at := slices.IndexFunc(stages, func(s PlannedStage) bool { return s.Name == "train/seed1/best" })
	if err != nil || at < 0 || stages[at].State != StageDone || stages[at].Key != rec.Key || !slices.Equal(stages[at].Inputs, []string{"train/seed1/sft_lazy+grpo", "train/seed1/other"}) {
		t.Errorf("the plan has it as %+v, its record has the key %.12s (%v)", stages[max(0, at)], rec.Key, err)
	}
	if a, _ := e.Result("sft_lazy+grpo", 1); a.Weights != was.Weights || a.TotalTokens != was.TotalTokens {
		t.Errorf("what was chosen is %+v, the policy %+v", a, was)
	}
	if m, err := e.load("best", 1); err != nil {
		t.Error(err)
	} else {
		m.Weights.Free()
	}
	if why, no := e.refused("refused", 1); !no || !strings.Contains(why, "0.900") {
		t.Errorf("the gate of the recipe's own settings: %v, %q", no, why)
	}
	if _, no := e.refused("sft_lazy+grpo", 1); no {
		t.Error("another recipe's thresholds hold for one without")
	}
	if why, no := e.refused("none", 1); !no || why == "" {
		t.Error("nothing is left to choose from and the row is not left out")
	}
	// Now another policy is better on val.
	other := e.Run.Path(e.folder(1, "other"), historyFile)
	b, err := os.ReadFile(other)
	if err != nil {
		t.Fatal(err)
	}
	looks, err := rl.ReadHistory(strings.NewReader(string(b)))
	if err != nil {
		t.Fatal(err)
	}
	for i := range looks {
		looks[i].Values[0].Value = 0.9 // the mean reward comes first
	}
	r, err := e.onVal("other", 1)
	if err != nil || r > 0.5 {
		t.Fatalf("val reward %v, %v", r, err)
	}
	if err := os.WriteFile(other, rl.HistoryCSV(looks), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := e.onVal("other", 1); err == nil || !strings.Contains(err.Error(), "other/history.csv") {
		t.Errorf("a history that somebody changed: error %v", err)
	}
	dir := e.folder(1, "other")
	asStage(t, e, dir, filepath.Join(dir, historyFile))
	if r, err = e.onVal("other", 1); err != nil || r != 0.9 {
		t.Errorf("val reward %v, %v", r, err)
	}
	if pairs := e.TrainingSteps(); len(pairs) != 1 || pairs[0].String() != "best against sft_lazy" {
		t.Errorf("compared: %v", pairs)
	}
	names, err := e.needed("best")
	if err != nil || !reflect.DeepEqual(e.candidates("best", "other"), []string{"refused", "sft_lazy+grpo", "other"}) || len(names) != 6 {
		t.Errorf("needed %v, %v", names, err)
	}
	if !strings.Contains(log.String(), "best (seed 1): sft_lazy+grpo") {
		t.Errorf("the log does not say what was chosen:\n%s", log)
	}
}

// A chosen policy's episodes are copies of the original policy's, under its own name. Apart from times they are the episodes that it would
// have played itself.
func TestChosenEpisodes(t *testing.T) {
	out := t.TempDir()
	set := []string{"recipes.best={choose: [sft_lazy+grpo], method: best}", "recipes.sft_lazy+grpo.override=true", "train=[sft_lazy, best, sft_lazy+grpo]"}
	played := func(more ...string) []string {
		e, log := onGo(t, out, append(slices.Clone(set), more...)...)
		for _, step := range []func(*Env, context.Context) error{(*Env).Train, (*Env).Evaluate} {
			if err := step(e, t.Context()); err != nil {
				t.Fatal(err)
			}
		}
		if copied := !strings.Contains(log.String(), "  best on "); copied != (len(more) == 0) {
			t.Errorf("with %q, copied: %v:\n%s", more, copied, log)
		}
		trs, err := e.Episodes(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		var lines []string
		for _, tr := range trs {
			if tr.Method == "best" {
				b, err := tr.Canonical()
				if err != nil {
					t.Fatal(err)
				}
				lines = append(lines, string(b))
			}
		}
		if err := os.RemoveAll(e.Run.Path("episodes", "best")); err != nil {
			t.Fatal(err)
		}
		return lines
	}
	copied, itself := played(), played("eval.methods=[best]")
	if len(copied) < 8 || !slices.Equal(copied, itself) {
		t.Errorf("%d episodes copied and %d played are not the same:\n%.600s\n%.600s", len(copied), len(itself), copied, itself)
	}
}

// The split of shifted prices exists in evaluation alone: the same questions, the oracle at the new optimal cost.
func TestShiftedPrices(t *testing.T) {
	e := smallCompany(t, "suite.shifted_prices={sql_query: 4, web_search: 1}", "suite.shifted_tasks=20", "eval.n_tasks=30", "baselines.methods=[oracle]", "train=[]", "eval.headline=oracle")
	for _, step := range []func(*Env, context.Context) error{(*Env).World, (*Env).Baselines, (*Env).Report} {
		if err := step(e, t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	trs, err := e.Episodes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	usual := map[string]string{}
	shifted, moved := 0, 0
	for _, tr := range trs {
		if tr.Split == company.Test {
			usual[tr.Task.ID] = tr.Outcome.Spend.String()
		}
	}
	for _, tr := range trs {
		if tr.Split != company.TestPrices {
			continue
		}
		shifted++
		id, ok := company.Origin(tr.Task.ID)
		if !ok || usual[id] == "" || !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("%s: %+v", tr.Task.ID, tr.Outcome)
		}
		if tr.Outcome.Spend.String() != usual[id] {
			moved++
		}
	}
	if shifted != 20*len(e.Config.Baselines.BudgetModes) || moved < shifted/3 {
		t.Errorf("%d episodes at other prices, %d of them at another cost", shifted, moved)
	}
	for suite, set := range map[string]string{"company": "suite.shifted_prices={web: 1}", "chain": "suite.shifted_prices={web_search: 1}"} {
		if _, err := Open(Options{Suite: suite, Profile: "smoke", Out: t.TempDir(), Log: io.Discard, Set: []string{set}}); err == nil || !strings.Contains(err.Error(), "suite.shifted_prices") {
			t.Errorf("%s, %s: error %v", suite, set, err)
		}
	}
	if _, err := Open(Options{Suite: "company", Profile: "smoke", Out: t.TempDir(), Log: io.Discard, Set: []string{"suite.shifted_prices={sql_query: 1, doc_search: 2, web_search: 5, calculator: 0.5}"}}); err == nil || !strings.Contains(err.Error(), "change one") {
		t.Errorf("the usual prices: error %v", err)
	}
}

// Reinforcement in further worlds plays in worlds that are never imitated, in turn.
func TestRolloutsInFurtherWorlds(t *testing.T) {
	e := smallCompany(t, "suite.train_tasks=60", "recipes.sft={from: base, demos: optimal, worlds: 2}", "recipes.rl={from: sft, method: rl, algorithm: grpo, worlds: 2}", "grpo.prompts=30", "grpo.group_size=2", "engine.slots=4", "engine.rows=[4]",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16")
	var err error
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	untuned(t, e, "sft", 1)
	m, err := e.load("sft", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Weights.Free()
	l, done, err := e.loop(t.Context(), "rl", 1, m)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for i := range 4 {
		for _, item := range l.Draw(i, 0, 30) {
			if want := []string{"extra1001-", "extra1002-"}[i%2]; !strings.HasPrefix(item.Task.ID, want) {
				t.Errorf("iteration %d plays %s", i, item.Task.ID)
			}
		}
	}
	sub, err := e.with("rl")
	if err != nil {
		t.Fatal(err)
	}
	if file, of := sub.profileOf("sft", 1); of != "rl" {
		t.Errorf("the gate looks at %s, which is of other worlds", file)
	}
	a, err1 := e.key("rl", 1, "p")
	e.Config.Recipes["rl"] = config.Recipe{From: "sft", Method: "rl", Algorithm: "grpo"}
	b, err2 := e.key("rl", 1, "p")
	if a == b || err1 != nil || err2 != nil {
		t.Errorf("keys %s and %s, errors %v and %v", a, b, err1, err2)
	}
}

// Reinforcement of a recipe with company settings of its own plays train tasks as these settings show them. The watched tasks follow the
// run's settings.
func TestRolloutsOfARecipe(t *testing.T) {
	e := smallCompany(t, "recipes.rl={from: base, method: rl, algorithm: grpo, with: {suite: {random_offers: 1}, reward: {additive: true}}}", "grpo.prompts=2", "grpo.group_size=2", "engine.slots=4", "engine.rows=[4]",
		"tiny.model.hidden=16", "tiny.model.layers=1", "tiny.model.heads=2", "tiny.model.head_dim=8", "tiny.model.ffn=16")
	var err error
	if e.backend, err = lm.OpenBackend("go"); err != nil {
		t.Fatal(err)
	}
	untuned(t, e, "base", 1)
	sub, err := e.with("rl")
	if err != nil {
		t.Fatal(err)
	}
	m, err := sub.load("base", 1)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Weights.Free()
	l, done, err := sub.loop(t.Context(), "rl", 1, m)
	if err != nil {
		t.Fatal(err)
	}
	defer done()
	for _, item := range l.Draw(0, 0, 2) {
		if len(item.Task.Offers) == 0 {
			t.Errorf("%s is played at the usual prices", item.Task.ID)
		}
		if p, err := l.World(0).Suite.Prompt(item.Task); err != nil || !strings.HasPrefix(p.User, item.Task.Offers[0].Tool+" "+item.Task.Offers[0].Price.Base.String()) {
			t.Errorf("its prompt is %q, %v", p.User, err)
		}
	}
	own, err := e.Suite(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if l.Evaluation != own || l.World(0).Suite == own || len(l.EvalSets) != 2 {
		t.Errorf("%d splits are watched, in the run's own suite: %v", len(l.EvalSets), l.Evaluation == own)
	}
	// The gate's profile is made with the recipe's rewards and tasks, in a file beside that of the run's settings.
	mine, of := sub.profileOf("base", 1)
	if run, none := e.profileOf("base", 1); mine == run || of != "rl" || none != "" {
		t.Errorf("profiles %s (%q) and %s (%q)", mine, of, run, none)
	}
}

// A run of hours must not end at a recipe whose demonstrations do not fit its rows. So the test checks every recipe of every profile, in a
// small world of the same kind.
func TestDemonstrationsFit(t *testing.T) {
	out, data, recipes := t.TempDir(), t.TempDir(), 0
	for _, profile := range []string{"full", "prices", "wasteful"} { // the others train what these do
		e, err := Open(Options{Suite: "company", Profile: profile, Out: out, Data: filepath.Join(data, profile), Log: io.Discard, Set: append(slices.Clone(fewTasks), "suite.train_tasks=200")})
		if err != nil {
			t.Fatal(err)
		}
		defer e.Close()
		doAll(t, e, (*Env).World, func(e *Env, ctx context.Context) error { return e.root().prepare(ctx) })
		c, err := e.root().codec()
		if err != nil {
			t.Fatal(err)
		}
		for name, r := range e.Config.Recipes {
			if r.Demos == "" {
				continue
			}
			sub, err := e.with(name)
			if err != nil {
				t.Fatal(err)
			}
			r.Worlds = 0
			played, err := sub.demonstrations(t.Context(), r, 1)
			if err != nil {
				t.Fatal(err)
			}
			examples, err := tiny.Examples(c, played)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := sub.fittingRows(name, examples, sub.Config.SFT.Batch.Lengths); err != nil {
				t.Errorf("%s of profile %s: %v", name, profile, err)
			}
			recipes++
		}
	}
	if recipes < 12 {
		t.Errorf("%d recipes were looked at", recipes)
	}
}
