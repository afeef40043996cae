package rollout_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
)

// A change of the grammar, of the rules of an episode, of its records or of the reward shows here: then raise Version, and put the new hash beside it.
func TestVersion(t *testing.T) {
	const version, want = 1, "8618e5ef94b6075d0a57a7b0af3b2328c3129a114a05e0b3f658aa89a7a6f295"
	got, err := playedHash()
	if err != nil {
		t.Fatal(err)
	}
	if rollout.Version != version || got != want {
		t.Errorf("the same actions give another record: %s, want %s. If that is meant, raise rollout.Version (now %d) and note both here", got, want, rollout.Version)
	}
}

// playedHash is the hash of the grammar's table and of what every list of actions comes to under every rule and reward.
func playedHash() (string, error) {
	h := sha256.New()
	grammar, err := os.ReadFile("../../docs/action_grammar.md")
	if err != nil {
		return "", err
	}
	h.Write(grammar)
	s := &mini.Suite{Seed: 1, Count: 6}
	tasks, err := s.Tasks("train")
	if err != nil {
		return "", err
	}
	stock := episode.Format("", "stock", json.RawMessage(`{"item":"bolts"}`))
	catalog := episode.Format("look", "catalog", json.RawMessage(`{"query":"cups"}`))
	finish := episode.Format("", "finish", json.RawMessage(`{"answer":"42"}`))
	unknown := episode.Format("", "nothing", json.RawMessage(`{}`))
	wrong := episode.Format("", "stock", json.RawMessage(`{"item":"none such"}`))
	number := episode.Format("", "finish", json.RawMessage(`{"answer":42}`))
	lists := [][]policy.Reply{
		{{Text: stock}, {Text: catalog}, {Text: finish}},
		{{Text: "prose"}, {Text: wrong}, {Text: unknown}, {Text: number}},
		{{Text: stock}, {Text: stock}, {Text: stock}, {Text: stock}},
		{{Text: stock}, {Text: stock[:20], Stop: policy.StopLength}},
	}
	var rules []episode.Config
	for _, mode := range []episode.BudgetMode{episode.Soft, episode.Hard, episode.None} {
		rules = append(rules, episode.Config{Budget: mode, MaxTurns: 4}, episode.Config{Budget: mode, FreeFailures: true, ObservationLimit: 64})
	}
	rewards := []reward.Config{reward.Default(), reward.VerifierOnly(), {Correct: 0.5, Efficiency: 0.5, Format: 0.2, MaxInvalid: 1, Call: 0.05, Additive: true}}
	for _, task := range tasks {
		gold := []policy.Reply{}
		for _, c := range task.GoldPath {
			gold = append(gold, policy.Reply{Text: episode.Format(c.Thought, c.Tool, c.Args)})
		}
		task.Budget = task.OptimalCost + price.Of(1)
		for _, cfg := range rules {
			for _, replies := range append(lists, gold) {
				e, err := episode.New(s, task, cfg)
				if err != nil {
					return "", err
				}
				for _, r := range replies {
					if obs, done := e.Step(context.Background(), r); done {
						break
					} else {
						h.Write([]byte(obs.Text))
					}
				}
				record := e.Result()
				if err := e.Close(); err != nil {
					return "", err
				}
				for _, rc := range rewards {
					reward.Apply(rc, &record)
					line, err := record.Canonical()
					if err != nil {
						return "", err
					}
					h.Write(line)
				}
			}
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}
