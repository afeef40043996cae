package company_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite/company"
)

// The tasks of a new world are answered from that world's stores, not from those of the data set.
func TestNewWorld(t *testing.T) {
	s := open(t, company.Options{NewWorldSeed: 977, Counts: company.Few()})
	tasks, err := s.Tasks(company.NewWorld)
	if err != nil {
		t.Fatal(err)
	}
	own, err := s.Tasks(company.Test)
	if err != nil {
		t.Fatal(err)
	}
	if len(tasks) == 0 || len(tasks) != len(own) {
		t.Fatalf("%d tasks of the new world, %d of test", len(tasks), len(own))
	}
	if slices.Contains(s.Splits(), company.NewWorld) {
		t.Errorf("%s is among the splits of the data set", company.NewWorld)
	}
	ids := map[string]bool{}
	for _, x := range own {
		ids[x.ID] = true
	}
	for _, x := range tasks {
		if ids[x.ID] || !strings.HasPrefix(x.ID, "new-") || x.Split != company.NewWorld {
			t.Fatalf("task %s of split %s", x.ID, x.Split)
		}
		ids[x.ID] = true
	}
	for _, tr := range play(t, s, scripted.Oracle(tasks), rollout.Attempts(tasks, 1), episode.Soft) {
		if !tr.Outcome.Verified || tr.Outcome.Spend != tr.Task.OptimalCost {
			t.Errorf("task %s: verified %v, spent %v of %v", tr.Task.ID, tr.Outcome.Verified, tr.Outcome.Spend, tr.Task.OptimalCost)
		}
	}
}

func TestNewWorldIsAnother(t *testing.T) {
	s := open(t, company.Options{})
	if _, err := s.Tasks(company.NewWorld); err == nil {
		t.Errorf("split %s without a seed of its world: no error", company.NewWorld)
	}
	same := open(t, company.Options{NewWorldSeed: 5})
	if _, err := same.Tasks(company.NewWorld); err == nil || !strings.Contains(err.Error(), "own") {
		t.Errorf("the data set's own seed: %v", err)
	}
}
