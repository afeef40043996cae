package stage

// Regime is a start of reinforcement and what is made of it.
type Regime struct {
	Name string
	// Start and After are the methods before and after.
	Start, After string
	// Reference says what an earlier system of this kind is reported to have done there.
	Reference string
}

// chainRegimes are the regimes of the chain suite. The reference figures are of another implementation, with another model: nothing of this
// project computed or reproduced them.
var chainRegimes = []Regime{
	{"lazy start", "sft_lazy", "sft_lazy+grpo", "27 iterations at a learning rate of 1.5e-4: stable; at 3e-4 it crashes"},
	{"polished start", "polished", "polished+grpo", "net change of the mean -0.02"},
	{"brittle start, learning rate 3e-4", "brittle", "brittle+grpo_high_lr", "crashes in 3 iterations"},
	{"brittle start, learning rate 1e-4", "brittle", "brittle+grpo_low_lr", "stable, and flat after about 4,600 episodes"},
	{"brittle start, dense imitation instead", "brittle", "brittle+sft", "40 more steps: 0.66 to 0.84, for a fraction of the compute"},
}

// ReferenceRows is the reference's table of the lazy start.
var ReferenceRows = [][]string{
	{"SFT (lazy)", "0.667", "0.980", "0.013", "0.000", "0.553"},
	{"+ 27 GRPO iterations (learning rate 1.5e-4)", "0.707", "0.993", "0.353", "0.980", "0.684"},
}
