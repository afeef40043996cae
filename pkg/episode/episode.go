package episode

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"
	"unicode/utf8"

	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// BudgetMode says what the budget does.
type BudgetMode string

// The budget modes.
const (
	Soft BudgetMode = "soft" // spend may pass the budget; only the reward minds
	Hard BudgetMode = "hard" // a call that would pass the budget is refused and ends the episode
	None BudgetMode = "none" // no budget is shown or kept
)

// DefaultMaxTurns is the turn limit of a Config that sets none.
const DefaultMaxTurns = 8

// Config holds the limits of an episode. The zero value is valid: 8 turns, a soft budget, failed calls charged.
type Config struct {
	MaxTurns int `json:"max_turns" yaml:"max_turns"` // replies an episode may take; 0 is 8
	// MaxTokensPerTurn bounds the sampled tokens of one reply, where the policy samples tokens; 0 is no limit.
	MaxTokensPerTurn int `json:"max_tokens_per_turn" yaml:"max_tokens_per_turn"`
	// MaxContext bounds the tokens of the episode, prompt and observations included; 0 is no limit.
	MaxContext int        `json:"max_context" yaml:"max_context"`
	Budget     BudgetMode `json:"budget_mode" yaml:"budget_mode"` // empty is soft
	// FreeFailures makes a failed call cost nothing. Off by default: with free failures, guessing looks cheap.
	FreeFailures bool `json:"free_failures" yaml:"free_failures"`
	// ObservationLimit cuts an observation's body at so many bytes, at a character, and says so; 0 leaves the box's own limit.
	ObservationLimit int `json:"observation_limit" yaml:"observation_limit"`
}

// Normalize fills in the defaults and checks the rest; the error names the field.
func (c Config) Normalize() (Config, error) {
	if c.MaxTurns == 0 {
		c.MaxTurns = DefaultMaxTurns
	}
	if c.Budget == "" {
		c.Budget = Soft
	}
	for _, f := range []struct {
		name string
		v    int
	}{{"max_turns", c.MaxTurns}, {"max_tokens_per_turn", c.MaxTokensPerTurn}, {"max_context", c.MaxContext}, {"observation_limit", c.ObservationLimit}} {
		if f.v < 0 {
			return c, fmt.Errorf("episode: %s is %d, must not be negative", f.name, f.v)
		}
	}
	if c.ObservationLimit > 0 && c.ObservationLimit < 64 {
		return c, fmt.Errorf("episode: observation_limit is %d, must be at least 64 bytes", c.ObservationLimit)
	}
	switch c.Budget {
	case Soft, Hard, None:
		return c, nil
	}
	return c, fmt.Errorf("episode: budget_mode is %q, must be soft, hard or none", c.Budget)
}

// Episode is one task being played. It is driven from one goroutine.
type Episode struct {
	suite suite.Suite
	task  suite.Task
	cfg   Config
	box   *tool.Box

	turns    []trajectory.Turn
	seen     []tool.Observation // of the calls that succeeded: what evidence may rest on
	spend    price.Amount
	context  int // tokens so far
	answer   string
	verdict  suite.Verdict
	end      trajectory.EndReason
	cause    error
	invalid  int
	failed   int
	tooShort bool // cut by a token or context limit
}

// New starts an episode of the task with its own tools. Close it when it is over.
func New(s suite.Suite, t suite.Task, cfg Config) (*Episode, error) {
	cfg, err := cfg.Normalize()
	if err != nil {
		return nil, err
	}
	if cfg.Budget == Hard && t.Budget == 0 && t.OptimalCost > 0 {
		return nil, fmt.Errorf("task %s: budget_mode is hard but the task has no budget; use soft or none", t.ID)
	}
	box, err := s.Box(t)
	if err != nil {
		return nil, fmt.Errorf("task %s: tools: %w", t.ID, err)
	}
	if _, ok := box.Lookup(tool.FinishName); !ok {
		return nil, errors.Join(fmt.Errorf("task %s: its tools lack %s, so that it could never end", t.ID, tool.FinishName), box.Close())
	}
	return &Episode{suite: s, task: t, cfg: cfg, box: box}, nil
}

// Close frees the episode's tools.
func (e *Episode) Close() error { return e.box.Close() }

// Done reports whether the episode has ended.
func (e *Episode) Done() bool { return e.end != "" }

// Err is what broke the episode when it ended with trajectory.Error: the policy's error, or a fault of a tool, which
// wraps ErrFault. It is nil otherwise.
func (e *Episode) Err() error { return e.cause }

// Remaining is what is left of the budget; below zero when a soft budget was passed, and 0 in mode none.
func (e *Episode) Remaining() price.Amount {
	if e.cfg.Budget == None {
		return 0
	}
	return e.task.Budget - e.spend
}

// LeftLine is the last line of every observation of a task with a budget.
func LeftLine(remaining price.Amount) string { return "left " + remaining.String() }

// ErrFault marks a fault of the tools' machinery, not an answer of a tool: a call that never came back, a panic, a box
// that is closed, or the end of the context. It says nothing about the policy, so a rollout stops on it.
var ErrFault = errors.New("tool fault")

// Step takes one reply and returns the observation that answers it; done reports that the episode is over, and then the
// observation is for the record only. After the end it changes nothing.
func (e *Episode) Step(ctx context.Context, reply policy.Reply) (obs policy.Observation, done bool) {
	if e.Done() {
		return policy.Observation{Remaining: e.Remaining()}, true
	}
	if reply.Err != nil {
		e.end, e.cause = trajectory.Error, reply.Err
		return policy.Observation{Failed: true, Remaining: e.Remaining()}, true
	}
	turn := trajectory.Turn{Text: clean(reply.Text), ModelTime: reply.Latency.Seconds()}
	if reply.Tokens != nil {
		turn.Tokens = len(reply.Tokens.Sampled)
		e.context += len(reply.Tokens.Context) + len(reply.Tokens.Sampled)
	}
	out := e.play(ctx, reply, &turn)
	if e.end == trajectory.Error {
		// The call's outcome is unknown, so nothing is charged and no observation is made up.
		e.turns = append(e.turns, turn)
		return policy.Observation{Tool: toolOf(turn), Failed: true, Remaining: e.Remaining()}, true
	}
	if e.cfg.ObservationLimit > 0 {
		out = out.Cut(e.cfg.ObservationLimit)
	}
	body := out.Text
	if turn.Executed() && !turn.Failed {
		e.seen = append(e.seen, out)
		turn.Reads = out.Reads
	}
	e.spend += turn.Price
	if turn.Invalid() {
		e.invalid++
	}
	if turn.Failed {
		e.failed++
	}
	obs = policy.Observation{Body: body, Text: body, Tool: toolOf(turn), Failed: turn.Failed || turn.Invalid() || turn.Refused, Remaining: e.Remaining()}
	if e.end != trajectory.Finished {
		if e.cfg.Budget != None && (e.task.Budget > 0 || e.cfg.Budget == Hard) {
			obs.Text = body + "\n" + LeftLine(obs.Remaining)
		}
		turn.Observation = obs.Text
	}
	e.turns = append(e.turns, turn)
	switch {
	case e.Done():
	case len(e.turns) >= e.cfg.MaxTurns:
		e.end = trajectory.Turns
	case e.cfg.MaxContext > 0 && e.context >= e.cfg.MaxContext:
		e.end, e.tooShort = trajectory.Context, true
	}
	return obs, e.Done()
}

// play decides what the reply is and does it: it fills in the turn, may end the episode, and returns the observation.
func (e *Episode) play(ctx context.Context, reply policy.Reply, turn *trajectory.Turn) tool.Observation {
	invalid := func(k ErrorKind, message string) tool.Observation {
		turn.ErrorKind = string(k)
		return tool.Said("error: " + message)
	}
	act, bad := Parse(turn.Text)
	switch {
	// A policy that reaches a closing fence stops for that reason, so a limit means that the action is not whole.
	case e.cfg.MaxTokensPerTurn > 0 && turn.Tokens > e.cfg.MaxTokensPerTurn, reply.Stop == policy.StopLength:
		e.end, e.tooShort = trajectory.Tokens, true
		return invalid(Cut, "cut at the token limit of a turn")
	case reply.Stop == policy.StopContext:
		e.end, e.tooShort = trajectory.Context, true
		return invalid(Cut, "cut at the context limit")
	case bad != nil:
		return invalid(bad.Kind, bad.Message)
	}
	turn.Action = &act
	args, err := DecodeArgs(act.Args)
	if err != nil {
		return invalid(BadArgs, err.Error())
	}
	if err := e.box.Validate(act.Tool, args); errors.Is(err, tool.ErrUnknown) {
		return invalid(UnknownTool, err.Error())
	} else if err != nil {
		return invalid(BadArgs, err.Error())
	}
	answer, isAnswer := answerText(args)
	if act.Tool == tool.FinishName && !isAnswer {
		return invalid(BadArgs, "finish: argument answer must be a string or a number")
	}
	cost := e.box.Charge(act.Tool, args)
	if e.cfg.Budget == Hard && e.spend+cost > e.task.Budget {
		turn.Refused = true
		e.end = trajectory.Budget
		return tool.Said(fmt.Sprintf("refused: %s costs %v", act.Tool, cost))
	}
	turn.Price = cost
	if act.Tool == tool.FinishName {
		e.end, e.answer = trajectory.Finished, answer
		e.verdict = e.suite.Verify(e.task, answer, e.seen)
		return tool.Observation{}
	}
	began := time.Now()
	out, err := e.box.Call(ctx, act.Tool, args)
	turn.ToolTime = time.Since(began).Seconds()
	if spec, ok := e.box.Lookup(act.Tool); ok {
		turn.ToolTime += spec.Latency.Seconds()
	}
	if err == nil {
		return out
	}
	turn.ErrorKind, turn.Failed = CallFailed, true
	if isFault(ctx, err) {
		turn.Price = 0
		e.end, e.cause = trajectory.Error, fmt.Errorf("%w: task %s: %w", ErrFault, e.task.ID, err)
		return tool.Observation{}
	}
	if e.cfg.FreeFailures {
		turn.Price = 0
	}
	return tool.Said("error: " + err.Error())
}

func isFault(ctx context.Context, err error) bool {
	for _, cause := range []error{tool.ErrDeadline, tool.ErrPanic, tool.ErrBusy, tool.ErrClosed} {
		if errors.Is(err, cause) {
			return true
		}
	}
	return ctx.Err() != nil
}

// answerText takes the answer of finish: a string, or a number as it was written.
func answerText(args map[string]any) (string, bool) {
	switch v := args["answer"].(type) {
	case string:
		return v, true
	case json.Number:
		return v.String(), true
	}
	return "", false
}

func toolOf(t trajectory.Turn) string {
	if t.Action == nil || t.Invalid() {
		return ""
	}
	return t.Action.Tool
}

// clean makes of a text what its JSON record will hold, so that parsing the record gives the verdict the policy got: bytes
// that are no UTF-8 become the replacement character, and a text beyond MaxText is kept just long enough to stay beyond it.
func clean(text string) string {
	if len(text) > MaxText {
		n := MaxText + 1
		for n < len(text) && !utf8.RuneStart(text[n]) {
			n++
		}
		text = text[:n]
	}
	if !utf8.ValidString(text) {
		text = string([]rune(text))
	}
	return text
}

// Evidenced judges the evidence of a recorded episode from the record alone: whether each gold value was seen where it may be
// read. For an episode of a suite that goes by suite.Evidenced it is the verdict that the episode got.
func Evidenced(t *trajectory.Trajectory) bool {
	var seen []tool.Observation
	for _, turn := range t.Turns {
		if turn.Executed() && !turn.Failed {
			seen = append(seen, tool.Observation{Text: turn.Observation, Reads: turn.Reads})
		}
	}
	return suite.Evidenced(t.Task.Question, t.Task.Evidence, seen)
}

// Result is the record of the episode so far. Method, model, seed and the rest of what a run knows, and the reward, are
// for the caller to fill in.
func (e *Episode) Result() trajectory.Trajectory {
	t := e.task
	tr := trajectory.Trajectory{
		Version: trajectory.Version, Suite: e.suite.Name(), Split: t.Split, BudgetMode: string(e.cfg.Budget),
		Task: trajectory.Task{
			ID: t.ID, Question: t.Question, Gold: t.Answer.Values, AnswerType: string(t.Answer.Type), Evidence: t.Evidence, Combination: t.CombinationKey(), Structure: t.Structure,
			Template: t.Template, Phrasing: t.Phrasing, Difficulty: t.Difficulty, Hops: t.Hops, Tags: t.Tags,
			OptimalCost: t.OptimalCost, Budget: t.Budget,
		},
		Turns: e.turns, End: e.end,
		Outcome: trajectory.Outcome{
			Answer: e.answer, Correct: e.verdict.Correct, Evidenced: e.verdict.Evidenced, Spend: e.spend,
			Invalid: e.invalid, Failed: e.failed, Truncated: e.tooShort,
		},
	}
	if e.cause != nil {
		tr.Cause = e.cause.Error()
	}
	tr.Task.GoldPath = recorded(t.GoldPath)
	for _, c := range tr.Task.GoldPath {
		if tr.Task.GoldCalls == nil {
			tr.Task.GoldCalls = map[string]int{}
		}
		tr.Task.GoldCalls[c.Tool]++
	}
	for _, p := range t.Paths {
		tr.Task.Paths = append(tr.Task.Paths, trajectory.Path{Calls: recorded(p.Calls), Cost: p.Cost, Fails: p.Fails})
	}
	return tr
}

// recorded are the calls of a path as records hold them: without finish and thoughts. Arguments that are no JSON are left out.
func recorded(path []suite.Call) (out []trajectory.Call) {
	for _, c := range path {
		if c.Tool == tool.FinishName {
			continue
		}
		var args bytes.Buffer
		if json.Compact(&args, c.Args) != nil {
			args.Reset()
		}
		out = append(out, trajectory.Call{Tool: c.Tool, Args: args.Bytes()})
	}
	return out
}
