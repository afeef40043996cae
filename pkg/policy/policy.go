// Package policy holds the contract between the rollout engine and whatever chooses actions: scripted rules, a language
// model here, or a remote endpoint. Rollout sees text only; a policy that samples tokens keeps its KV cache behind this
// interface and hands the sampled ids back for training.
package policy

import (
	"context"
	"time"

	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/suite"
)

// Key identifies an episode's random stream. Sampling depends on it and on the turn only, never on slots or order.
type Key struct {
	Seed    uint64
	Task    string
	Attempt int
}

// Policy makes sessions.
type Policy interface {
	// Name is the method's name in tables.
	Name() string
	// Model is "tiny", a hub id, or "-" for scripted policies.
	Model() string
	// Open starts a session of at most slots episodes at once. A policy may grant fewer: see Session.Slots.
	Open(ctx context.Context, slots int) (Session, error)
}

// Session plays a batch of episodes. It is driven from one goroutine. An error is fatal for the session, unless it is
// reported in a Reply.
type Session interface {
	Slots() int
	// Start begins an episode in a free slot.
	Start(slot int, key Key, p suite.Prompt) error
	// Observe appends what came back on the slot's last action.
	Observe(slot int, o Observation) error
	// Step lets every listed slot act once and returns as many replies, in the same order.
	Step(ctx context.Context, slots []int) ([]Reply, error)
	// Release ends the slot's episode and frees the slot.
	Release(slot int)
	Close() error
}

// Observation is what the environment answers to an action.
type Observation struct {
	Text      string // as a language model sees it: the body and the line with the remaining budget
	Body      string // the tool's output or the error text alone
	Tool      string // the tool called; empty after an invalid action
	Failed    bool
	Remaining price.Amount // of the budget
}

// Stop says why a reply ended.
type Stop string

// The stop reasons.
const (
	StopFence   Stop = "fence"   // the closing fence of an action
	StopEOS     Stop = "eos"     // the end-of-turn token
	StopLength  Stop = "length"  // the per-turn token limit, before a closing fence: the action is cut, the episode ends
	StopContext Stop = "context" // the context limit, before a closing fence: likewise
)

// Reply is one action.
type Reply struct {
	Text    string
	Tokens  *Tokens // nil for policies without tokens
	Stop    Stop
	Latency time.Duration
	Err     error // this slot failed; the episode ends with reason "error"
}

// Tokens are the ids of one turn as the model saw and sampled them.
type Tokens struct {
	Context  []int32   // ids put before the sampled ones since the last turn: the prompt, or the observation
	Sampled  []int32   // ids as sampled: what is trained on
	LogProbs []float32 // of each sampled id, at the sampling temperature
}
