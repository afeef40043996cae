package chain

import (
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Definition is the chain suite as stages and reports know it.
func Definition() suite.Definition {
	return suite.Definition{
		Name: Name, Version: 1, Settings: func() suite.Settings { return new(Settings) },
		Train: Train, Val: Val, Splits: []string{Test},
		Demos: DemonstrationKinds(), Corpus: []string{Clean},
		Columns: Columns(), Behaviours: RequiredBehaviours(), HistoryColumn: suite.TitledColumn{Column: "chain_rate", Title: "chain rate"},
		Summary: []suite.TitledColumn{{Column: "acc_calc", Title: "calc"}, {Column: "acc_lookup", Title: "lookup"}, {Column: "acc_compose", Title: "compose"},
			{Column: "chain_rate", Title: "chain rate"}, {Column: "chain_rate_sampled", Title: "chain rate, sampled"}},
		// Every wording and every template is trained; the two tables say so.
		Dimensions: []suite.Dimension{suite.SeenInTraining("template_seen", "template", none), suite.SeenInTraining("phrasing", "phrasing", none)},
		Regimes:    regimes, Reference: reference,
	}
}

func none(string, *trajectory.Task) bool { return false }

// regimes are the regimes of the chain suite. The reference figures are of another implementation, with another model: nothing of this
// project computed or reproduced them.
var regimes = []suite.Regime{
	{Name: "lazy start", Start: "sft_lazy", After: "sft_lazy+grpo", Reference: "27 iterations at a learning rate of 1.5e-4: stable; at 3e-4 it crashes"},
	{Name: "polished start", Start: "polished", After: "polished+grpo", Reference: "net change of the mean -0.02"},
	{Name: "brittle start, learning rate 3e-4", Start: "brittle", After: "brittle+grpo_high_lr", Reference: "crashes in 3 iterations"},
	{Name: "brittle start, learning rate 1e-4", Start: "brittle", After: "brittle+grpo_low_lr", Reference: "stable, and flat after about 4,600 episodes"},
	{Name: "brittle start, dense imitation instead", Start: "brittle", After: "brittle+sft", Reference: "40 more steps: 0.66 to 0.84, for a fraction of the compute"},
}

// reference is the reference's table of the lazy start.
var reference = suite.Reference{
	Header: []string{"lazy start, reference", "calc", "lookup", "compose", "chain rate", "mean"},
	Lines: [][]string{
		{"SFT (lazy)", "0.667", "0.980", "0.013", "0.000", "0.553"},
		{"+ 27 GRPO iterations (learning rate 1.5e-4)", "0.707", "0.993", "0.353", "0.980", "0.684"},
	},
	Note: "The mean is that of the three kinds. Compose stayed at 0.35 there because digits were copied wrongly.",
}
