package suites

import (
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// Shell scripts take the names of the suites from the settings files, so that a new suite is smoke tested without a line there.
func TestScriptsKnowTheSuites(t *testing.T) {
	out, err := exec.Command("bash", "../../scripts/suites.sh").Output()
	if err != nil {
		t.Fatal(err)
	}
	listed, want := strings.Fields(string(out)), slices.Sorted(slices.Values(Names()))
	if !slices.Equal(listed, want) {
		t.Errorf("scripts/suites.sh lists %v, the program has %v: each suite needs configs/suite-<suite>.yaml and a line in All", listed, want)
	}
}
