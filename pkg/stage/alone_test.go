package stage

import (
	"strings"
	"testing"
)

// A cell of a notebook that is run alone after a restart works from what is on disk, or says what has to be run before it.
// Those that train when nothing is there yet are left to the run of the notebooks.
func TestEveryExhibitAlone(t *testing.T) {
	for name, x := range map[string]Exhibit{
		"settings": ShowSettings, "tools": ShowTools, "tasks": ShowTasks, "combinations": ShowCombinations, "costs": ShowCosts, "task": ShowTask("test"), "episode": ShowEpisode("test"),
		"world findings": ShowWorldFindings, "reward rule": ShowRewardRule, "reward curve": ShowRewardCurve, "baselines": ShowBaselines, "baseline findings": ShowBaselineFindings, "curves": ShowCurves("sft_lazy"), "training findings": ShowTrainingFindings,
		"comparisons": ShowComparisons, "routing": ShowRouting, "trajectories": ShowTrajectories, "evaluation findings": ShowEvaluationFindings,
		"picture": ShowPicture("rewards.png"),
	} {
		shown, err := x(t.Context(), small(t))
		t.Logf("%s: %d shown, %v", name, len(shown), err)
		if err != nil && !strings.Contains(err.Error(), "first") {
			t.Errorf("%s alone: error %v, want one that says what to run first", name, err)
		}
	}
}
