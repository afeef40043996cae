package suite_test

import (
	"context"
	"slices"
	"testing"

	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/tool"
)

// changed is the mini suite with something that it shows changed.
type changed struct {
	*mini.Suite
	prompt, thought string
	never           bool // an answer is never right
}

func (c changed) Prompt(t suite.Task) (suite.Prompt, error) {
	p, err := c.Suite.Prompt(t)
	p.User += c.prompt
	return p, err
}

func (c changed) Verify(t suite.Task, answer string, seen []tool.Observation) suite.Verdict {
	if c.never {
		return suite.Verdict{}
	}
	return c.Suite.Verify(t, answer, seen)
}

func (c changed) Demonstrations(ctx context.Context, kind string, seed uint64) ([]suite.Demonstration, error) {
	demos, err := c.Suite.Demonstrations(ctx, kind, seed)
	for i := range demos {
		demos[i].Calls = slices.Clone(demos[i].Calls)
		demos[i].Calls[0].Thought += c.thought
	}
	return demos, err
}

// The fingerprint is the same for the same suite, and another one if a prompt, an observation, a verdict or a demonstration changes.
func TestFingerprint(t *testing.T) {
	usual := func() *mini.Suite { return &mini.Suite{Seed: 1, Count: 8} }
	said := &mini.Suite{Seed: 1, Count: 8, Wrap: func(_ suite.Task, tools []tool.Tool) []tool.Tool {
		for i, inner := range tools {
			tools[i] = tool.Func{Def: inner.Spec(), Run: func(ctx context.Context, args map[string]any) (tool.Observation, error) {
				obs, err := inner.Call(ctx, args)
				obs.Text += "!"
				return obs, err
			}}
		}
		return tools
	}}
	seen := map[string]string{}
	for _, c := range []struct {
		name string
		s    suite.Suite
	}{{"usual", usual()}, {"prompt", changed{Suite: usual(), prompt: "."}}, {"thought", changed{Suite: usual(), thought: "."}}, {"verdict", changed{Suite: usual(), never: true}},
		{"observation", said}} {
		got, err := suite.Fingerprint(context.Background(), c.s, mini.Definition())
		if err != nil {
			t.Fatal(err)
		}
		if other := seen[got]; other != "" {
			t.Errorf("%s and %s have one fingerprint", c.name, other)
		}
		seen[got] = c.name
	}
	again, err := suite.Fingerprint(context.Background(), changed{Suite: usual()}, mini.Definition())
	if err != nil || seen[again] != "usual" {
		t.Errorf("the same suite gives another fingerprint, %v", err)
	}
}
