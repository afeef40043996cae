package stage

import (
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// The plan names every stage that a run does, in an order in which inputs come first, with the keys that they have when they are done; and
// asking for it writes nothing.
func TestPlan(t *testing.T) {
	out := t.TempDir()
	e, _ := onGo(t, out)
	plan := func() (stages []PlannedStage, byName map[string]PlannedStage) {
		t.Helper()
		before := filesOf(t, out)
		stages, err := e.Plan(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if after := filesOf(t, out); !slices.Equal(before, after) {
			t.Fatalf("asking for the plan left %q, %q before", after, before)
		}
		byName = map[string]PlannedStage{}
		for i, s := range stages {
			for _, in := range s.Inputs {
				if _, ok := byName[in]; !ok {
					t.Errorf("stage %d, %s, reads %s, which is not before it", i, s.Name, in)
				}
			}
			byName[s.Name] = s
		}
		return stages, byName
	}
	first, byName := plan()
	if len(first) < 10 || first[0].Name != worldStage || first[len(first)-1].Name != reportStage || byName["train/seed1/sft_lazy+grpo"].Key != "" || first[0].Key == "" || first[0].State != StageToDo {
		t.Errorf("the plan of an empty folder:\n%s", PlanTable(first))
	}
	doAll(t, e, (*Env).World, (*Env).Baselines)
	_, byName = plan()
	if byName[worldStage].State != StageDone || byName["play/episodes/oracle/test.none.greedy.jsonl"].State != StageDone || byName["tokenizer"].Key == "" || byName["tokenizer"].State != StageToDo {
		t.Errorf("after the baselines: %+v", byName)
	}
	doAll(t, e, (*Env).Train, (*Env).Evaluate, (*Env).Report)
	last, byName := plan()
	for _, s := range last {
		if s.State != StageDone && s.Name != reportStage {
			t.Errorf("after the whole run %s is %s (key %.12s)", s.Name, s.State, s.Key)
		}
	}
	records, err := fs.Glob(os.DirFS(e.Run.Path(".stages")), "*")
	if err != nil || len(records) < 8 {
		t.Fatalf("%d records, %v", len(records), err)
	}
	for name, s := range byName {
		if name == worldStage || name == reportStage {
			continue
		}
		if r, err := e.Run.Record(name); err != nil || r.Key != s.Key {
			t.Errorf("%s has the key %.12s in the plan and %.12s in its record (%v)", name, s.Key, r.Key, err)
		}
	}
	if text := PlanTable(last); !strings.Contains(text, "| train/seed1/sft_lazy+grpo | done | "+byName["train/seed1/sft_lazy+grpo"].Key[:12]+" | world, train/seed1/sft_lazy, profile/sft_lazy") {
		t.Errorf("the table:\n%s", text)
	}
	// A change of settings shows in the stages that it decides, and in none before.
	changed, _ := onGo(t, out, "grpo.group_size=3")
	stages, err := changed.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		want := StageDone
		if strings.Contains(s.Name, "+grpo") || s.Name == reportStage {
			want = StageToDo
		}
		if s.State != want {
			t.Errorf("with another group size %s is %s, want %s", s.Name, s.State, want)
		}
	}
}

// If the code of a suite shows something else, nothing that was played or trained counts as done. The data set does.
func TestPlanOfAnotherVersion(t *testing.T) {
	out := t.TempDir()
	e, _ := onGo(t, out)
	doAll(t, e, (*Env).World, (*Env).Baselines, (*Env).Train, (*Env).Evaluate)
	later, _ := onGo(t, out)
	later.Definition.Version++
	stages, err := later.Plan(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range stages {
		want := StageToDo
		if s.Name == worldStage {
			want = StageDone
		}
		if s.State != want {
			t.Errorf("%s is %s with another version of the suite, want %s", s.Name, s.State, want)
		}
	}
}

// filesOf lists the files below a folder.
func filesOf(t *testing.T, dir string) (out []string) {
	t.Helper()
	err := fs.WalkDir(os.DirFS(dir), ".", func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			out = append(out, path)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
