package stage

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/config"
	"github.com/toolroute/toolroute/pkg/run"
	"github.com/toolroute/toolroute/pkg/table"
)

// The states of a planned stage.
const (
	StageDone    = "done"    // made with these settings and inputs: a run would skip it
	StageBegun   = "begun"   // begun and interrupted: a run would continue it
	StageToDo    = "to do"   // not made, or made with other settings or inputs
	StageChanged = "changed" // an output was changed since: a run would make it again
	StageTaken   = "taken"   // a policy from a committed checkpoint, not trained here
)

// PlannedStage is a stage of the run: what it reads, what it leaves, and the key that decides whether it is done.
type PlannedStage struct {
	Name    string
	Inputs  []string // stages
	Outputs []string // files, below the run's folder; the world's below that of the data set
	// Key is the hash of what decides the outputs: settings and the hashes of what the stage reads. It is empty where an input is not made yet.
	Key   string
	State string
}

// Plan lists the stages of the run in the order in which they are done. Nothing is run and nothing is written.
func (e *Env) Plan(ctx context.Context) ([]PlannedStage, error) {
	p := planner{env: e, ctx: ctx}
	p.world()
	for _, f := range e.scriptedFiles() {
		p.episodes(f, worldStage)
	}
	p.training()
	p.evaluation()
	var all []string
	for _, s := range p.stages {
		all = append(all, s.Name)
	}
	p.add(PlannedStage{Name: reportStage, Inputs: all, Outputs: []string{"results_table.md", "report.html", manifestFile, "..."}}, nil)
	return p.stages, errors.Join(p.errs...)
}

// planner collects stages.
type planner struct {
	env    *Env
	ctx    context.Context
	stages []PlannedStage
	errs   []error
}

// add appends a stage once, with its state. key is nil where an input is missing.
func (p *planner) add(s PlannedStage, key func() (string, error)) {
	if slices.ContainsFunc(p.stages, func(have PlannedStage) bool { return have.Name == s.Name }) {
		return
	}
	if s.State != "" {
		p.stages = append(p.stages, s)
		return
	}
	s.State = StageToDo
	ready := key != nil
	for _, in := range s.Inputs {
		ready = ready && p.done(in)
	}
	if ready {
		var err error
		if s.Key, err = key(); err != nil && !errors.Is(err, run.ErrNotDone) {
			p.errs = append(p.errs, err)
		} else if err == nil {
			s.State = p.state(s.Name, s.Key)
		}
	}
	p.stages = append(p.stages, s)
}

func (p *planner) done(name string) bool {
	return slices.ContainsFunc(p.stages, func(s PlannedStage) bool { return s.Name == name && (s.State == StageDone || s.State == StageTaken) })
}

func (p *planner) state(name, key string) string {
	folder := p.env.Run
	if name == worldStage {
		folder = p.env.Data
	}
	switch err := folder.Check(name, key); {
	case err == nil:
		return StageDone
	case !errors.Is(err, run.ErrNotDone):
		return StageChanged
	case folder.Begun(name, key):
		return StageBegun
	}
	return StageToDo
}

func (p *planner) world() {
	e := p.env
	p.add(PlannedStage{Name: worldStage, Outputs: []string{"manifest.json", "..."}}, func() (string, error) { return e.worldKey(), nil })
}

// episodes adds a file of episodes.
func (p *planner) episodes(f episodeFile, inputs ...string) {
	p.add(PlannedStage{Name: f.stage(), Inputs: inputs, Outputs: []string{filepath.ToSlash(f.file())}}, func() (string, error) {
		s, err := p.env.Suite(p.ctx)
		if err != nil {
			return "", err
		}
		key, _, err := p.env.playKey(s, f)
		return key, err
	})
}

// training adds the tokenizer, and every policy after its ancestors and the profile that its gate reads.
func (p *planner) training() {
	e := p.env
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			p.policy(name, seed)
		}
	}
}

// policy adds the stages that make a policy. A chosen policy comes after its candidates.
func (p *planner) policy(name string, seed uint64) {
	e := p.env
	r := e.Config.Recipes[name]
	dir := e.folder(seed, name)
	if _, taken := e.Taken(name, seed); taken {
		p.add(PlannedStage{Name: dir, Outputs: []string{dir + "/model", dir + "/result.json"}, State: StageTaken}, nil)
		return
	}
	if len(r.Choose) > 0 {
		var candidates, inputs []string
		for _, of := range r.Choose {
			p.policy(of, seed)
			if _, no := e.refused(of, seed); !no {
				candidates, inputs = append(candidates, of), append(inputs, e.folder(seed, of))
			}
		}
		var key func() (string, error)
		if len(candidates) > 0 {
			key = func() (string, error) {
				c, err := e.choiceAmong(candidates, seed)
				return run.Key(c.decided...), err
			}
		}
		p.add(PlannedStage{Name: dir, Inputs: inputs, Outputs: []string{dir + "/model", dir + "/result.json"}}, key)
		return
	}
	if name == config.RootName {
		var inputs []string
		for _, s := range e.root().plan() {
			p.add(s.PlannedStage, s.key)
			inputs = append(inputs, s.Name)
		}
		p.add(PlannedStage{Name: dir, Inputs: inputs, Outputs: []string{dir + "/model", dir + "/result.json"}}, func() (string, error) { return e.key(name, seed, "") })
		return
	}
	p.policy(r.From, seed)
	parent := e.folder(seed, r.From)
	sub, err := e.with(name)
	if err != nil {
		p.errs = append(p.errs, err)
		return
	}
	weights := func() (string, error) {
		t, err := e.Result(r.From, seed)
		return t.Weights, err
	}
	inputs, outputs := []string{worldStage, parent}, []string{dir + "/model", dir + "/result.json", dir + "/" + metricsFile}
	if a := algorithmOf(r); a.gated {
		file, of := sub.profileOf(r.From, seed)
		profile := profileStage(file)
		p.add(PlannedStage{Name: profile, Inputs: []string{worldStage, parent}, Outputs: []string{filepath.ToSlash(file)}}, func() (string, error) {
			w, err := weights()
			if err != nil {
				return "", err
			}
			return sub.profileKey(of, w)
		})
		inputs, outputs = append(inputs, profile), append(outputs, dir+"/"+historyFile)
	}
	if r.TokensOf != "" {
		p.policy(r.TokensOf, seed)
		inputs = append(inputs, e.folder(seed, r.TokensOf))
	}
	p.add(PlannedStage{Name: dir, Inputs: inputs, Outputs: outputs}, func() (string, error) {
		w, err := weights()
		if err != nil {
			return "", err
		}
		return sub.key(name, seed, w)
	})
}

// evaluation adds the episodes of every policy that has a method.
func (p *planner) evaluation() {
	e := p.env
	for _, name := range e.Config.Train {
		for _, seed := range e.Config.SeedsOf(name) {
			for _, f := range e.learnedFiles(e.Config.Recipes[name].Method, seed) {
				t, _ := e.Result(name, seed) // without the policy, its key is not asked for
				f.version = t.Weights
				p.episodes(f, worldStage, e.folder(seed, name))
			}
		}
	}
}

// PlanTable renders a plan: a line a stage, with the first digits of its key.
func PlanTable(stages []PlannedStage) string {
	t := table.New(5, "stage", "state", "key", "reads", "leaves")
	for _, s := range stages {
		key := "-"
		if s.Key != "" {
			key = s.Key[:12]
		}
		reads := strings.Join(s.Inputs, ", ")
		if n := len(s.Inputs); n > 4 {
			reads = fmt.Sprintf("all %d above", n)
		}
		t.Add(s.Name, s.State, key, reads, strings.Join(s.Outputs, ", "))
	}
	return t.Markdown()
}
