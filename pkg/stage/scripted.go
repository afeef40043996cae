package stage

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Baselines plays the scripted policies on every evaluated split in every budget mode.
func (e *Env) Baselines(ctx context.Context) error {
	for _, p := range e.scriptedFiles() {
		p.open = func() (policy.Policy, error) { return e.scripted(ctx, p.method, p.split) }
		if err := e.play(ctx, p); err != nil {
			return err
		}
	}
	return nil
}

// scriptedFiles lists the files of episodes that scripted policies have to play with these settings. A method does not play a split whose tasks offer
// tools that its rules do not know.
func (e *Env) scriptedFiles() (out []episodeFile) {
	b := e.Config.Baselines
	for _, method := range e.Config.Scripted() {
		for _, split := range e.Splits() {
			if f, ok := e.derived(split); ok && !e.knowsTools(method, f.ToolNames) {
				continue
			}
			for _, budget := range b.BudgetModes {
				out = append(out, episodeFile{method: method, split: split, budget: budget, decoding: "greedy", k: 1, seed: e.Config.Seed, slots: 256, version: fmt.Sprint(scriptedVersion, b.MinScore)})
			}
		}
	}
	return out
}

// scriptedVersion is raised when the rules change, so that earlier episodes are played again.
const scriptedVersion = 2

// scriptedMethod is a policy that follows a suite's rules.
type scriptedMethod struct {
	name string
	// rules returns the suite's rules or parser that the method follows, or nil if the suite has none.
	rules func(d suite.Definition) any
	open  func(ctx context.Context, e *Env) (policy.Policy, error)
}

// scriptedMethods are the methods that baselines.methods can name, besides oracle, which uses no rules. A new one is one more line.
var scriptedMethods = []scriptedMethod{
	byRules("always_cheapest", scripted.AlwaysCheapest),
	byRules("always_all_tools", scripted.AlwaysAllTools),
	{"static_threshold", rulesOf, openStaticThreshold},
	byRules("random_tool", scripted.RandomTool),
	{RuleParser, parserOf, openRuleParser},
}

// byRules is a method that needs nothing but the suite's rules.
func byRules(name string, of func(scripted.Rules) policy.Policy) scriptedMethod {
	return scriptedMethod{name, rulesOf, func(_ context.Context, e *Env) (policy.Policy, error) { return of(e.Definition.Rules), nil }}
}

func rulesOf(d suite.Definition) any { return d.Rules }

// parserOf returns a suite's parser that has read no train tasks: enough to ask which tools it knows.
func parserOf(d suite.Definition) any {
	if d.Parser == nil {
		return nil
	}
	return d.Parser(nil)
}

func openStaticThreshold(_ context.Context, e *Env) (policy.Policy, error) {
	t := e.Definition.Threshold
	if e.Config.Baselines.MinScore > 0 {
		t.MinScore = e.Config.Baselines.MinScore
	}
	return scripted.StaticThreshold(e.Definition.Rules, t), nil
}

func openRuleParser(ctx context.Context, e *Env) (policy.Policy, error) {
	s, err := e.Suite(ctx)
	if err != nil {
		return nil, err
	}
	tasks, err := s.Tasks(e.Definition.Train)
	return scripted.RuleParser(e.Definition.Parser(tasks)), err
}

// namesWhere lists the scripted methods for which holds is true, and oracle.
func namesWhere(holds func(scriptedMethod) bool) string {
	var names []string
	for _, m := range scriptedMethods {
		if holds(m) {
			names = append(names, m.name)
		}
	}
	return strings.Join(append(names, Oracle), ", ")
}

// methodNamed finds a scripted method.
func methodNamed(name string) (scriptedMethod, bool) {
	i := slices.IndexFunc(scriptedMethods, func(m scriptedMethod) bool { return m.name == name })
	if i < 0 {
		return scriptedMethod{}, false
	}
	return scriptedMethods[i], true
}

// knowsTools reports whether a method can play tasks that offer tools of these names. A method without rules, and rules that say nothing of
// what they know, can.
func (e *Env) knowsTools(method string, tools []string) bool {
	m, ok := methodNamed(method)
	if !ok {
		return true
	}
	k, ok := m.rules(e.Definition).(suite.Knower)
	return !ok || !slices.ContainsFunc(tools, func(name string) bool { return !k.Knows(name) })
}

// scripted opens a scripted policy for the tasks of a split.
func (e *Env) scripted(ctx context.Context, method, split string) (policy.Policy, error) {
	if method == Oracle {
		s, err := e.Suite(ctx)
		if err != nil {
			return nil, err
		}
		tasks, err := e.splitTasks(s, split)
		if err != nil {
			return nil, err
		}
		return scripted.Oracle(tasks), nil
	}
	m, ok := methodNamed(method)
	if !ok {
		return nil, fmt.Errorf("baselines.methods: no policy is named %q; there are %s", method, namesWhere(func(scriptedMethod) bool { return true }))
	}
	if m.rules(e.Definition) == nil {
		return nil, fmt.Errorf("baselines.methods: suite %s has no rules for %q; it has those for %s", e.Options.Suite, method,
			namesWhere(func(m scriptedMethod) bool { return m.rules(e.Definition) != nil }))
	}
	return m.open(ctx, e)
}
