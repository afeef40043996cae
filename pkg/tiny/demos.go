package tiny

import (
	"context"
	"fmt"

	"github.com/toolroute/toolroute/pkg/chat"
	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/policy/scripted"
	"github.com/toolroute/toolroute/pkg/reward"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/train"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// Version is raised when the same texts give another tokenizer, other ids or other rows of copy pre-training, or when copy pre-training takes other
// steps. It is in the key of what the preset makes. A test compares it with what fixed texts give.
const Version = 3

// Atoms are the fixed strings of the action grammar. In the tiny preset each is one token.
var Atoms = []string{"```json\n{\"thought\": \"", "```json\n{\"tool\": \"", "\", \"tool\": \"", "\", \"args\": {\"", "\": \"", "\"}}\n```"}

// Played is a demonstration with the observations it got.
type Played struct {
	Prompt     suite.Prompt
	Trajectory trajectory.Trajectory
}

// Exchanges are the turns as a codec and an export take them: what the policy would write, and what it would read.
func (p Played) Exchanges() []chat.Exchange {
	out := make([]chat.Exchange, len(p.Trajectory.Turns))
	for i, t := range p.Trajectory.Turns {
		out[i] = chat.Exchange{Action: t.Text, Observation: t.Observation}
	}
	return out
}

// Play plays demonstrations through real episodes, so that they hold the observations that a model will meet. It plays a hard
// budget as a soft one, so that no budget ends a demonstration.
func Play(ctx context.Context, s suite.Suite, demos []suite.Demonstration, cfg episode.Config) ([]Played, error) {
	given, attempts := scripted.Paths(demos)
	items := make([]rollout.Item, len(demos))
	for i, d := range demos {
		items[i] = rollout.Item{Task: d.Task, Attempt: attempts[i]}
	}
	if cfg.Budget == episode.Hard {
		cfg.Budget = episode.Soft
	}
	trs, err := rollout.Run(ctx, s, scripted.Demonstrator("demonstrations", "-", given), items, rollout.Options{Episode: cfg, Reward: reward.VerifierOnly()})
	if err != nil {
		return nil, fmt.Errorf("play demonstrations: %w", err)
	}
	out := make([]Played, len(trs))
	for i, tr := range trs {
		p, err := s.Prompt(demos[i].Task)
		if err != nil {
			return nil, fmt.Errorf("demonstration %s: %w", demos[i].Task.ID, err)
		}
		out[i] = Played{p, tr}
	}
	return out, nil
}

// Texts lists all that a model reads and writes in the demonstrations. A tokenizer is trained on them.
func Texts(played []Played) []string {
	var out []string
	for _, p := range played {
		if p.Prompt.System != "" {
			out = append(out, p.Prompt.System)
		}
		out = append(out, p.Prompt.User)
		for _, t := range p.Trajectory.Turns {
			out = append(out, t.Text)
			if t.Observation != "" {
				out = append(out, t.Observation)
			}
		}
	}
	return out
}

// Examples encodes demonstrations for training. Only the tokens of actions carry loss.
func Examples(c *chat.Codec, played []Played) ([]train.Example, error) {
	out := make([]train.Example, len(played))
	for i, p := range played {
		ids, mask, err := c.Episode(p.Prompt.System, p.Prompt.User, p.Exchanges())
		if err != nil {
			return nil, fmt.Errorf("demonstration of %s: %w", p.Trajectory.Task.ID, err)
		}
		out[i] = train.Example{ID: p.Trajectory.EpisodeID, IDs: ids, Mask: mask}
	}
	return out, nil
}
