package show

import (
	"strings"
	"testing"
)

// A cell of a notebook that is run alone after a restart works from what is on disk, or says what has to be run before it.
// Those that train when nothing is there yet are left to the run of the notebooks.
func TestEveryExhibitAlone(t *testing.T) {
	for name, x := range map[string]Exhibit{
		"settings": Settings, "tools": Tools, "tasks": Tasks, "combinations": Combinations, "costs": Costs, "task": Task("test"), "episode": Episode("test"),
		"world findings": WorldFindings, "reward rule": RewardRule, "reward curve": RewardCurve, "baselines": Baselines, "baseline findings": BaselineFindings, "curves": Curves("sft_lazy"), "training findings": TrainingFindings,
		"comparisons": Comparisons, "routing": Routing, "trajectories": Trajectories, "evaluation findings": EvaluationFindings,
		"picture": Picture("rewards.png"),
	} {
		shown, err := x(t.Context(), small(t))
		t.Logf("%s: %d shown, %v", name, len(shown), err)
		if err != nil && !strings.Contains(err.Error(), "first") {
			t.Errorf("%s alone: error %v, want one that says what to run first", name, err)
		}
	}
}
