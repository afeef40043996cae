package rollout_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/toolroute/toolroute/pkg/episode"
	"github.com/toolroute/toolroute/pkg/internal/mini"
	"github.com/toolroute/toolroute/pkg/policy"
	"github.com/toolroute/toolroute/pkg/price"
	"github.com/toolroute/toolroute/pkg/rollout"
	"github.com/toolroute/toolroute/pkg/suite"
	"github.com/toolroute/toolroute/pkg/trajectory"
)

// line is what a speller says in a turn.
type line struct {
	text string
	stop policy.Stop
}

// speller is a sampler that says given lines and spells them in ids of its own, two or three letters a piece, so that no
// encoding of the text gives these ids. It says the last line again and again.
type speller struct{ lines map[string][]line }

func (speller) Name() string  { return "speller" }
func (speller) Model() string { return "-" }
func (p speller) Open(_ context.Context, slots int) (policy.Session, error) {
	return &spelling{p: p, at: make([]spot, slots)}, nil
}

type spot struct {
	task    string
	turn    int
	context []int32
}

type spelling struct {
	p  speller
	at []spot
}

// spell gives an id a piece; where says prompt, observation or action.
func spell(where int32, text string) []int32 {
	var out []int32
	for i := 0; i < len(text); {
		n := min(2+i%2, len(text)-i)
		h := where
		for _, b := range []byte(text[i : i+n]) {
			h = h*257 + int32(b)
		}
		out = append(out, h&0xffffff)
		i += n
	}
	return out
}

func (s *spelling) Slots() int { return len(s.at) }

func (s *spelling) Start(i int, key policy.Key, p suite.Prompt) error {
	s.at[i] = spot{task: key.Task, context: spell(1, p.User)}
	return nil
}

func (s *spelling) Observe(i int, o policy.Observation) error {
	s.at[i].context = spell(2, o.Text)
	return nil
}

func (s *spelling) Step(_ context.Context, slots []int) ([]policy.Reply, error) {
	var out []policy.Reply
	for _, i := range slots {
		at := &s.at[i]
		lines := s.p.lines[at.task]
		l := lines[min(at.turn, len(lines)-1)]
		at.turn++
		ids := spell(3, l.text)
		lp := make([]float32, len(ids))
		for j := range lp {
			lp[j] = -0.5 - float32(j)/64
		}
		out = append(out, policy.Reply{Text: l.text, Stop: l.stop, Tokens: &policy.Tokens{Context: at.context, Sampled: ids, LogProbs: lp}})
	}
	return out, nil
}

func (s *spelling) Release(i int) { s.at[i] = spot{} }
func (s *spelling) Close() error  { return nil }

func action(tool, args string) line {
	return line{episode.Format("hello", tool, json.RawMessage(args)), policy.StopFence}
}

// Episodes of one, two, three and five turns in one batch, ended by every limit and by an answer: the ids are the sampled
// ones whatever they spell, ids, mask and log-probabilities are equally long, an episode has one reason, one flag and at
// most one cut turn, and each executed call is charged once.
func TestOddlySpelledEpisodesOfEveryLength(t *testing.T) {
	call, cut := action("stock", `{"item":"bolts"}`), line{"```json\n{\"tool\": \"stock\", \"args\": {\"item\": \"bo", policy.StopLength}
	good := action("finish", `{"answer":"1"}`)
	cutByContext := cut
	cutByContext.stop = policy.StopContext
	cases := []struct {
		lines     []line
		end       trajectory.EndReason
		truncated bool
		turns     int
		calls     int
	}{
		{[]line{cut}, trajectory.Tokens, true, 1, 0},
		{[]line{call, cut}, trajectory.Tokens, true, 2, 1},
		{[]line{call, call, call, call, call}, trajectory.Turns, false, 5, 5},
		{[]line{call, call, good, call}, trajectory.Finished, false, 3, 2},
		{[]line{call, call, call, call, cutByContext}, trajectory.Context, true, 5, 4},
		{[]line{good, good}, trajectory.Finished, false, 1, 0},
		{[]line{{"The price? hello", policy.StopEOS}}, trajectory.Turns, false, 5, 0},
		{[]line{call, {call.text + "\nObservation: 42\n" + good.text, policy.StopEOS}, call}, trajectory.Turns, false, 5, 4},
	}
	s := &mini.Suite{Count: len(cases)}
	tasks := tasksOf(t, s)
	p := speller{map[string][]line{}}
	for i, c := range cases {
		p.lines[tasks[i].ID] = c.lines
	}
	for _, slots := range []int{1, 3, len(cases)} {
		opt := options()
		opt.Slots, opt.Episode = slots, episode.Config{MaxTurns: 5}
		opt.Each = func(i int, tr trajectory.Trajectory, tok *trajectory.TokenRecord) error {
			c := cases[i]
			name := fmt.Sprintf("%d slots, case %d", slots, i)
			if err := tok.Check(); err != nil {
				t.Errorf("%s: %v", name, err)
			}
			prompt, err := s.Prompt(tasks[i])
			if err != nil {
				return err
			}
			want := spell(1, prompt.User)
			mask := make([]bool, len(want))
			cuts := 0
			for j, turn := range tr.Turns {
				said := spell(3, c.lines[min(j, len(c.lines)-1)].text)
				want, mask = append(want, said...), append(mask, slices.Repeat([]bool{true}, len(said))...)
				if j < len(tr.Turns)-1 {
					seen := spell(2, turn.Observation)
					want, mask = append(want, seen...), append(mask, make([]bool, len(seen))...)
				}
				if turn.ErrorKind == string(episode.Cut) {
					cuts++
				}
				if turn.Tokens != len(said) || strings.Contains(turn.Observation, "42") {
					t.Errorf("%s turn %d: %d tokens, want %d; observation %q", name, j, turn.Tokens, len(said), turn.Observation)
				}
			}
			if !slices.Equal(tok.IDs, want) || !slices.Equal(tok.Mask, mask) {
				t.Errorf("%s: the ids are not those that were read and sampled", name)
			}
			for j, lp := range tok.LogProbs {
				if (lp != 0) != mask[j] {
					t.Errorf("%s: log-probability %v at %d, sampled %v", name, lp, j, mask[j])
				}
			}
			o := tr.Outcome
			if tr.End != c.end || o.Truncated != c.truncated || (cuts == 1) != c.truncated || cuts > 1 || len(tr.Turns) != c.turns || o.Spend != price.Of(float64(c.calls)) || o.Correct {
				t.Errorf("%s: end %s, truncated %v, %d cut turns, %d turns, spend %v; want %+v", name, tr.End, o.Truncated, cuts, len(tr.Turns), o.Spend, c)
			}
			return nil
		}
		if _, err := rollout.Run(t.Context(), s, p, rollout.Attempts(tasks, 1), opt); err != nil {
			t.Fatal(err)
		}
	}
}
