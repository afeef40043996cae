// Package suite holds what a suite is: priced tools and verifiable tasks behind one interface. All other packages (episodes, rollouts,
// training, evaluation) know a suite only through it. The suites live in subpackages.
package suite

import (
	"context"
	"encoding/json"
	"slices"
	"strings"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
	"github.com/toolroute/toolroute/pkg/tool"
)

// Task is one verifiable question with its gold path. Policies never see it: they get a Prompt.
type Task struct {
	ID          string            `json:"id"`
	Split       string            `json:"split"`
	Question    string            `json:"question"`
	Answer      Answer            `json:"answer"`
	Combination []string          `json:"combination"` // the set of gold tools, in the suite's canonical order, without finish
	Structure   string            `json:"structure"`   // the ordered shape: "A", "A op B", "A then B", ...
	GoldPath    []Call            `json:"gold_path"`   // executed and verified; the last call is finish
	OptimalCost price.Amount      `json:"optimal_cost"`
	Budget      price.Amount      `json:"budget"`
	Difficulty  int               `json:"difficulty"` // 1..3
	Hops        int               `json:"hops"`
	Template    string            `json:"template"`
	Phrasing    string            `json:"phrasing"`
	Fact        string            `json:"fact"`               // key of the underlying fact: no two splits share one
	Evidence    []source.Evidence `json:"evidence,omitempty"` // gold values an answer must rest on, and where they may be read (see Evidenced)
	Tags        []string          `json:"tags,omitempty"`
	// Offers, when not empty, is the toolset of this task, in prompt order, with its prices; otherwise the suite's default.
	Offers []Offer `json:"offers,omitempty"`
	// Paths are further ways to play the task, where the suite knows any: the valid ones by ascending cost, the gold path first, then attempts
	// that fail.
	Paths []Path `json:"paths,omitempty"`
	// Extra belongs to the suite, such as the initial state of a sandbox.
	Extra json.RawMessage `json:"extra,omitempty"`
}

// Offer is a tool at a price, as one task offers it.
type Offer struct {
	Tool  string     `json:"tool"`
	Price tool.Price `json:"price"`
}

// Call is one tool call of a path.
type Call struct {
	Thought string          `json:"thought,omitempty"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
}

// Path is one way to play a task. The suite executed it when it made the task: Cost is what its calls were charged.
type Path struct {
	Calls []Call       `json:"calls"` // the last one is finish
	Cost  price.Amount `json:"cost"`
	// Fails says that the path does not end in the right answer: an attempt that looks cheap.
	Fails bool `json:"fails,omitempty"`
}

// CombinationKey joins the combination's names with "+".
func (t Task) CombinationKey() string { return strings.Join(t.Combination, "+") }

// HasTag reports whether the task belongs to a stratum.
func (t Task) HasTag(tag string) bool { return slices.Contains(t.Tags, tag) }

// Prompt is all a policy learns about a task before its first action.
type Prompt struct {
	System   string       // instructions, the price list, the action grammar; empty when the style needs none
	User     string       // the question with the budget
	Question string       // the bare question, for scripted policies
	Tools    []tool.Spec  // as offered to this task: order and prices included
	Budget   price.Amount // 0 when there is none
}

// Verdict is the check of a final answer.
type Verdict struct {
	Correct   bool
	Evidenced bool
}

// Suite is priced tools and verifiable tasks.
type Suite interface {
	Name() string
	// Splits lists the split names in a fixed order.
	Splits() []string
	// Tasks returns the tasks of one split in a fixed order; the caller must not change them.
	Tasks(split string) ([]Task, error)
	// Box makes the tools of one episode of a task, offered as the task says. Close it after the episode.
	Box(t Task) (*tool.Box, error)
	// Prompt renders what the policy sees first.
	Prompt(t Task) (Prompt, error)
	// Verify checks an answer against gold and against what the successful calls of the episode gave, in order.
	Verify(t Task, answer string, seen []tool.Observation) Verdict
	// Demonstrations returns paths to imitate. The kinds are the suite's own (for company: "optimal", "base", "wasteful").
	Demonstrations(ctx context.Context, kind string, seed uint64) ([]Demonstration, error)
}

// Demonstration is a task and the calls to imitate on it; playing it through an episode gives its observations.
type Demonstration struct {
	Task  Task
	Calls []Call
}

// Preference is a task with two lists of calls to tell apart: one to prefer, and one to avoid.
type Preference struct {
	Task             Task
	Chosen, Rejected []Call
}

// Preferrer is a suite that has preferences to learn from.
type Preferrer interface {
	// Preferences returns those of a kind, of the definition's Pairs, on tasks of the train split. Chosen and rejected calls differ.
	Preferences(ctx context.Context, kind string, seed uint64) ([]Preference, error)
}
