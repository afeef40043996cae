// Package trajectory is the one record of what happened in an episode. Scripted, zero-shot, trained and endpoint policies
// write the same record; evaluation, reports and training read nothing else. It depends on the standard library and on
// packages price and source only.
package trajectory

import (
	"encoding/json"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/source"
)

// Version is written into every record; readers accept this and every older version. Those before 3 have no GoldPath and no Paths.
const Version = 3

// EndReason says why an episode ended; every episode has exactly one.
type EndReason string

// The end reasons.
const (
	Finished EndReason = "finished" // the policy gave its final answer
	Turns    EndReason = "turns"    // the turn limit was reached
	Tokens   EndReason = "tokens"   // an action was cut at the per-turn token limit
	Context  EndReason = "context"  // the context limit was reached
	Budget   EndReason = "budget"   // hard budget: a call that would pass it was refused
	Error    EndReason = "error"    // the episode could not be played on (policy or tool infrastructure failed)
)

// Trajectory is one episode.
type Trajectory struct {
	Version     int     `json:"version"`
	EpisodeID   string  `json:"episode_id"` // unique within a run: method, task, seed, attempt, budget mode, decoding
	Suite       string  `json:"suite"`
	Split       string  `json:"split"`
	Method      string  `json:"method"`
	Model       string  `json:"model"` // "tiny", a hub id, or "-" for scripted policies
	Seed        uint64  `json:"seed"`
	Attempt     int     `json:"attempt"`     // 0..k-1
	BudgetMode  string  `json:"budget_mode"` // "soft", "hard" or "none"
	Decoding    string  `json:"decoding"`    // "greedy" or "sampled"
	Temperature float64 `json:"temperature"`

	Task    Task      `json:"task"`
	Turns   []Turn    `json:"turns"`
	End     EndReason `json:"end"`
	Cause   string    `json:"cause,omitempty"` // of End == Error: what failed
	Outcome Outcome   `json:"outcome"`
}

// Task is what evaluation needs to know of the task, copied into the record so that it stands alone.
type Task struct {
	ID          string            `json:"id"`
	Question    string            `json:"question"`
	Gold        []string          `json:"gold"`                  // the gold value, or values of a list
	AnswerType  string            `json:"answer_type,omitempty"` // how gold is compared: number, string, date, list, yesno
	Evidence    []source.Evidence `json:"evidence,omitempty"`    // the gold values that an answer rests on, and where they may be read
	Combination string            `json:"combination"`           // gold tools, in canonical order, joined with "+"
	Structure   string            `json:"structure"`
	Template    string            `json:"template"`
	Phrasing    string            `json:"phrasing"`
	Difficulty  int               `json:"difficulty"`
	Hops        int               `json:"hops"`
	Tags        []string          `json:"tags,omitempty"` // strata: "unseen_phrasing", "new_filling", "new_structure", "two_source", ...
	OptimalCost price.Amount      `json:"optimal_cost"`
	Budget      price.Amount      `json:"budget"` // 0 when the suite has none
	// GoldCalls counts the calls of the gold path by tool, finish left out. Records of every version have it.
	GoldCalls map[string]int `json:"gold_calls,omitempty"`
	// GoldPath is the calls of the gold path in order, finish left out.
	GoldPath []Call `json:"gold_path,omitempty"`
	// Paths are the candidate paths of the task, finish left out, where the suite gives any.
	Paths []Path `json:"paths,omitempty"`
}

// Call is a call as a task gives it. Args is JSON text without insignificant white space, as in Action.
type Call struct {
	Tool string          `json:"tool"`
	Args json.RawMessage `json:"args,omitempty"`
}

// Path is one way to play a task that was executed when the task was made.
type Path struct {
	Calls []Call       `json:"calls"`
	Cost  price.Amount `json:"cost"`
	// Fails says that the path does not end in the right answer: an attempt that looks cheap.
	Fails bool `json:"fails,omitempty"`
}

// Action is a parsed action. Args is the JSON text of the arguments without insignificant white space: numbers and strings
// stand as they were written, and a record read back holds the same bytes.
type Action struct {
	Thought string          `json:"thought,omitempty"`
	Tool    string          `json:"tool"`
	Args    json.RawMessage `json:"args"`
}

// Turn is one action and what came back.
type Turn struct {
	Text        string  `json:"text"` // what the policy wrote, up to the closing fence
	Action      *Action `json:"action,omitempty"`
	ErrorKind   string  `json:"error_kind,omitempty"` // of an invalid action: a row of the action grammar's table; or "call_failed"
	Observation string  `json:"observation,omitempty"`
	Failed      bool    `json:"failed,omitempty"` // a valid action whose tool call failed
	// Reads say which parts of Observation were read from a store or calculated: of calls that succeeded alone.
	Reads     []source.Read `json:"reads,omitempty"`
	Refused   bool          `json:"refused,omitempty"` // a valid action that the hard budget did not allow: neither executed nor charged
	Price     price.Amount  `json:"price"`
	Tokens    int           `json:"tokens,omitempty"`  // sampled tokens of the action
	ModelTime float64       `json:"model_s,omitempty"` // seconds; never an input of anything and not part of Canonical
	ToolTime  float64       `json:"tool_s,omitempty"`  // seconds, simulated latency included; likewise
}

// Invalid reports whether the turn was an invalid action.
func (t Turn) Invalid() bool { return t.ErrorKind != "" && !t.Failed }

// Called reports whether the turn's tool was executed, successfully or not; finish counts as a tool here.
func (t Turn) Called() bool { return t.Action != nil && !t.Refused && (t.ErrorKind == "" || t.Failed) }

// Finish is the name of the action that ends an episode. It is free and not counted as a call.
const Finish = "finish"

// Executed reports whether the turn is a tool call that was carried out and charged, successful or not. Finish is none, nor is a call that a
// hard budget refused.
func (t Turn) Executed() bool { return t.Called() && t.Action.Tool != Finish }

// Guess reports a right answer that does not rest on what was observed.
func (t *Trajectory) Guess() bool {
	return t.End == Finished && t.Outcome.Correct && !t.Outcome.Evidenced
}

// Outcome is the verdict on the episode.
type Outcome struct {
	Answer    string       `json:"answer"`    // as given; empty when none was
	Correct   bool         `json:"correct"`   // the answer equals gold
	Evidenced bool         `json:"evidenced"` // every gold value it rests on was seen in an observation
	Verified  bool         `json:"verified"`  // Correct, and Evidenced where evidence is required: the success of all tables
	Spend     price.Amount `json:"spend"`
	Invalid   int          `json:"invalid"`      // invalid actions
	Failed    int          `json:"failed_calls"` // tool calls that failed
	Truncated bool         `json:"truncated"`    // cut by a token or context limit: a failure, marked
	Reward    Reward       `json:"reward"`
}

// Reward is the total and its parts (see package reward).
type Reward struct {
	Total      float64 `json:"total"`
	Correct    float64 `json:"correct"`
	Efficiency float64 `json:"efficiency"`
	Format     float64 `json:"format"`
	Calls      float64 `json:"calls,omitempty"` // penalty for executed calls, where the config has one
}
